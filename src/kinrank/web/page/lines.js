// Lines between the ranks of both columns; a stub with a number if one end is outside the list.

import { svg } from "./dom.js";
import { rank } from "./numbers.js";
import { idWords } from "./state.js";

const STUB = 22; // pixels
const LETTER = 6.2; // pixels
const NARROW = 110; // pixels: numbers of both sides would overlap, and the rows say how far items moved

/** Return up, down or same. An item that enters the list moved up; one that leaves it moved down. */
export function moved(entry, side) {
  if (entry.other === null) return side === "after" ? "up" : "down";
  const before = side === "before" ? entry.rank : entry.other;
  const after = side === "before" ? entry.other : entry.rank;
  return after < before ? "up" : after > before ? "down" : "same";
}

export const verdict = (entry) => (entry.right === true ? "right" : entry.right === false ? "wrong" : "open");

/** Format the rank in the other list, such as "213", or say that it is beyond the ranks that are known. */
export const otherRank = (entry, side, depth) =>
  rank(entry.other_beyond, side === "after" ? "before" : "after", depth);

/** Draw into the <svg>, `row` pixels per rank. Returns the drawn elements by item id. */
export function drawLines(root, answer, row) {
  const width = root.clientWidth;
  const ranks = Math.max(answer.before.length, answer.after.length);
  root.setAttribute("viewBox", `0 0 ${width} ${ranks * row}`);
  const lines = new Map(),
    labels = [];
  const at = (rank) => (rank - 0.5) * row;
  const add = (entry, side, path, label) => {
    const kinds = `line ${moved(entry, side)} ${verdict(entry)}`;
    const group = svg("g", { class: kinds }, svg("path", { class: "halo", d: path }), svg("path", { d: path }));
    const number = label ? svg("g", { class: `${kinds} label` }, label) : null;
    if (number) labels.push(number);
    lines.set(idWords(entry.id), number ? [group, number] : [group]);
  };
  const room = width - 2 * STUB - 40; // width left by the number on the other side
  const words = (text, number, x, y, anchor) =>
    width > NARROW &&
    svg("text", { x, y, "text-anchor": anchor }, (text + number).length * LETTER < room ? text + number : number);

  for (const entry of answer.after) {
    const y = at(entry.rank);
    if (entry.other === null) {
      const path = `M${width - STUB},${y + 13} C${width - STUB / 2},${y + 13} ${width - STUB / 2},${y} ${width},${y}`;
      add(entry, "after", path, words("from ", otherRank(entry, "after", answer.depth), width - STUB - 4, y + 17, "end"));
    } else {
      const from = at(entry.other);
      add(entry, "after", `M0,${from} C${width * 0.45},${from} ${width * 0.55},${y} ${width},${y}`, null);
    }
  }
  for (const entry of answer.before) {
    if (entry.other !== null) continue;
    const y = at(entry.rank);
    const path = `M0,${y} C${STUB / 2},${y} ${STUB / 2},${y + 13} ${STUB},${y + 13}`;
    add(entry, "before", path, words("→ ", otherRank(entry, "before", answer.depth), STUB + 4, y + 17, "start"));
  }
  // rising lines cover falling ones, and numbers cover all lines
  const order = { down: 0, same: 1, up: 2 };
  const sorted = [...lines.values()]
    .map(([group]) => group)
    .sort((a, b) => order[a.classList[1]] - order[b.classList[1]]);
  root.replaceChildren(...sorted, ...labels);
  return lines;
}

/** Create a strip with one cell per rank, right or wrong: the pattern shows more than the count. */
export function hits(entries, words) {
  const cells = entries.map((entry, place) => {
    const kind = verdict(entry);
    const height = kind === "right" ? 10 : kind === "wrong" ? 4 : 2;
    return svg("rect", { class: kind, x: place + 0.09, width: 0.82, y: 10 - height, height });
  });
  const box = { viewBox: `0 0 ${Math.max(entries.length, 1)} 10`, preserveAspectRatio: "none" };
  return svg("svg", { class: "hits", role: "img", "aria-label": words, ...box }, cells);
}
