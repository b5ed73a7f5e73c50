// Names of files: the base name, whose middle is cut if there is no room, and the folder in grey.

import { el } from "./dom.js";

const TAIL = 9, // characters at the end that always stay: usually a number and the suffix
  SHORT = 12; // characters of a name that is not cut

/** Create the name of an item. Its text is the whole name, for search and screen readers. */
export function nameOf(name) {
  const text = String(name);
  const cut = text.lastIndexOf("/") + 1;
  const base = [...text.slice(cut)];
  const end = base.length > SHORT ? base.splice(-TAIL).join("") : "";
  return el(
    "span",
    { class: "file-name" },
    cut ? el("span", { class: "folder" }, text.slice(0, cut)) : null,
    el("span", { class: "base" }, el("span", { class: "start" }, base.join("")), end && el("span", {}, end)),
  );
}
