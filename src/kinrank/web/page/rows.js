// Row of one result: picture or text, rank, movement, right or wrong, and the mark buttons.

import { button, el, picture } from "./dom.js";
import { moved, otherRank, verdict } from "./lines.js";
import { nameOf } from "./names.js";
import { idWords } from "./state.js";
import { short, whole } from "./numbers.js";

const SIGNS = { right: "✓", wrong: "✕" };

/** Describe a movement: sign and number for the screen, words for screen readers. */
function describeMove(entry, side, depth) {
  const way = moved(entry, side);
  if (entry.other === null) {
    return side === "after"
      ? {
          sign: `▲ ${entry.other_beyond ? whole(entry.other_beyond - entry.rank) : "new"}`,
          words: `came from rank ${otherRank(entry, side, depth)}`,
        }
      : {
          sign: `▼ ${entry.other_beyond ? whole(entry.other_beyond - entry.rank) : "out"}`,
          words: `goes to rank ${otherRank(entry, side, depth)}`,
        };
  }
  const far = Math.abs(entry.other - entry.rank);
  if (way === "same") return { sign: "=", words: "stays" };
  const words = side === "after" ? `came from rank ${entry.other}` : `goes to rank ${entry.other}`;
  return { sign: `${way === "up" ? "▲" : "▼"} ${far}`, words };
}

/** Create the row of an entry. `mark` is "right", "wrong" or empty; `markable` is true if marks are allowed. */
export function rowOf(entry, side, { markable, mark, shape }, depth) {
  const way = moved(entry, side),
    truth = verdict(entry),
    move = describeMove(entry, side, depth);
  const known = { right: ", right", wrong: ", wrong", open: "" }[truth];
  const name = String(entry.name),
    label = entry.label && entry.label !== name ? `, ${entry.label}` : "";
  const unseen = (words) => el("span", { class: "unseen" }, words);
  const sign = SIGNS[truth] && el("i", { class: "sign", "aria-hidden": "true" }, SIGNS[truth]);
  const text = shape === "texts" && entry.text;
  const thumb = el("span", { class: "thumb" }, shape === "pictures" ? picture(entry, 192) : null, sign);
  const detail = el(
    "span",
    { class: "detail" },
    el(
      "span",
      { class: "rank" },
      unseen("Rank "),
      el("b", {}, String(entry.rank)),
      el("em", { class: `move ${way}`, "aria-hidden": "true" }, move.sign),
      unseen(`, ${move.words}${known}, `),
    ),
    el("span", { class: text ? "name text" : "name" }, text ? entry.text : nameOf(name)),
    label && unseen(label),
  );
  const result = el(
    "button",
    {
      type: "button",
      class: "result",
      tabindex: "-1",
      title: `${name}${label}, distance ${short(entry.distance)}`,
    },
    side === "before" ? [detail, thumb] : [thumb, detail],
  );
  const marks =
    markable &&
    el(
      "span",
      { class: "marks" },
      ["right", "wrong"].map((kind) =>
        button("", null, {
          drawing: kind === "right" ? "up" : "down",
          kind: `mark ${kind}`,
          label: `Mark ${name} as ${kind}`,
          "aria-pressed": String(mark === kind),
          tabindex: "-1",
          data: { mark: kind },
        }),
      ),
    );
  return el(
    "li",
    {
      class: `row ${side} ${way} ${truth}${mark ? ` marked-${mark}` : ""}`,
      data: { id: idWords(entry.id), side, rank: entry.rank },
    },
    result,
    marks,
  );
}
