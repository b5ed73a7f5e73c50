// Page header, and messages for errors, the empty start page and an empty gallery.

import { byId, button, el } from "./dom.js";
import { plural } from "./numbers.js";
import { openRail } from "./sheets.js";

export const LOST = "The query was too long for a link. Enter it again.";
const WELCOME =
  "The page then shows the results of plain search, the re-ranked results, and why each item moved.";
const KEYS = "Keys: arrows go from result to result, Enter explains, R and W mark it right or wrong, Escape closes.";

/** Return what items look like: pictures, texts or names. */
export const shapeOf = ({ has }) => (has.pictures ? "pictures" : has.texts ? "texts" : "names");

/** Fill the page header with title and size of the gallery. */
export function entitle(start) {
  byId("title").textContent = start.title;
  byId("facts").textContent = `${plural(start.items, "item")}, ${plural(start.dimensions, "dimension")}`;
  document.title = start.title === "kinrank" ? "kinrank" : `${start.title} · kinrank`;
  byId("rail").dataset.shape = shapeOf(start);
}

/** Create an error message; `again` retries, if that can help. */
export function problemBox(words, again) {
  return el(
    "div",
    { class: "problem", role: "alert" },
    el("p", {}, words),
    again ? button("Try again", again, { kind: "tool primary", id: "try-again" }) : null,
    button("Pick another query", () => openRail(), { kind: "tool" }),
  );
}

/** Create the start page, before the first query. */
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

/** Create the hint below the lists. */
export function hint() {
  const keys = el("span", { class: "keys" }, KEYS);
  return el("p", { class: "hint" }, "Choose a result to see the chain that moved it. ", keys);
}
