// Moments in which there is nothing to show -> what is said instead, and the way on.

import { byId, button, el } from "./dom.js";
import { openRail } from "./sheets.js";

export const LOST = "This link was made with a vector that is too long for a link. Drop the file here again.";
const WELCOME =
  "The page then shows what plain search finds for it, what re-ranking makes of that, and why each item moved.";
const KEYS = "Keys: arrows go from result to result, Enter explains, R and W mark it right or wrong, Escape closes.";

/** What went wrong, in a sentence; `again` tries once more, where that can help. */
export function problemBox(words, again) {
  return el(
    "div",
    { class: "problem", role: "alert" },
    el("p", {}, words),
    again ? button("Try again", again, { kind: "tool primary", id: "try-again" }) : null,
    button("Pick another query", () => openRail(), { kind: "tool" }),
  );
}

/** Nobody has asked for anything yet. */
export function welcomeBox() {
  return el(
    "div",
    { class: "welcome" },
    el("h1", {}, "Pick a query"),
    el("p", {}, WELCOME),
    button("Choose one", () => openRail(), { kind: "tool primary" }),
    button("A random one", () => byId("random").click(), { kind: "tool", drawing: "dice" }),
  );
}

export const nothingFound = () => el("p", { class: "empty" }, "Nothing was found: the gallery is empty.");

/** What can be done with the lists, below them. */
export function hint() {
  const keys = el("span", { class: "keys" }, KEYS);
  return el("p", { class: "hint" }, "Choose a result to see the chain that moved it. ", keys);
}
