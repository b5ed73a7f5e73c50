// What is served, and moments in which there is nothing to show -> the head of the page, what is said, and the way on.

import { byId, button, el } from "./dom.js";
import { plural } from "./numbers.js";
import { openRail } from "./sheets.js";

export const LOST = "This link was made with something that is too long for a link. Give it to this page again.";
const WELCOME =
  "The page then shows what plain search finds for it, what re-ranking makes of that, and why each item moved.";
const KEYS = "Keys: arrows go from result to result, Enter explains, R and W mark it right or wrong, Escape closes.";

/** What there is to see of an item. */
export const shapeOf = ({ has }) => (has.pictures ? "pictures" : has.texts ? "texts" : "names");

/** The head of the page: what is served, and how much of it. */
export function entitle(start) {
  byId("title").textContent = start.title;
  byId("facts").textContent = `${plural(start.items, "item")}, ${plural(start.dimensions, "dimension")}`;
  document.title = start.title === "kinrank" ? "kinrank" : `${start.title} · kinrank`;
  byId("rail").dataset.shape = shapeOf(start);
}

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
