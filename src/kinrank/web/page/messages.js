// Page header, and messages for errors, the empty start page and an empty gallery.

import { byId, button, el } from "./dom.js";
import { plural } from "./numbers.js";
import { openRail } from "./sheets.js";

export const LOST = "This link is no longer valid: its query was too long for a link, or the service was restarted. Enter it again.";
const WELCOME = "The page then shows the items that are most similar to it.";
const MOVE = "Keys: arrows go from result to result",
  MARK = "R and W mark it right or wrong";
const HINTS = {
  pictures: ["Choose a picture to see it large. ", `${MOVE}, Space shows a picture, S searches with it, E explains, ${MARK}.`],
  others: ["Choose a result to see why it is here. ", `${MOVE}, Enter explains, S searches with it, ${MARK}.`],
  compare: ["Choose a result to see why it is here. ", `${MOVE}, Enter explains, ${MARK}, Escape closes.`],
};

/** Return what items look like: pictures, texts or names. */
export const shapeOf = ({ has }) => (has.pictures ? "pictures" : has.texts ? "texts" : "names");

/** Return what one item is called. */
export const thingOf = (start) => ({ pictures: "picture", texts: "text", names: "item" })[shapeOf(start)];

/** Explain why this service cannot search by description, and return the commands that help. */
export function textAdvice(start) {
  const isText = start.has.texts && !start.has.pictures;
  const [reads, extra, source, encoder] = isText
    ? ["texts", "texts", "FILE", "minilm"]
    : ["pictures and texts", "open-clip", "FOLDER", "open-clip --model ViT-B-32 --weights laion2b_s34b_b79k"];
  return {
    words: `To search by description, this service needs an encoder that reads ${reads}. In a clone of kinrank, for example:`,
    commands: `pip install '.[${extra}]'\nkinrank serve ${source} --encoder ${encoder}`,
  };
}

/** Fill the page header with title and size of the gallery. */
export function entitle(start) {
  byId("title").textContent = start.title;
  byId("facts").textContent = plural(start.items, thingOf(start));
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
export function hint(view, shape) {
  const [choose, keys] = HINTS[view === "compare" ? view : shape === "pictures" ? shape : "others"];
  return el("p", { class: "hint" }, choose, el("span", { class: "keys" }, keys));
}
