// Summary of an answer: the query, the scores of both lists, the times, and the search mode.

import { button, el, icon, picture } from "./dom.js";
import { hits } from "./lines.js";
import { percent, time, whole } from "./numbers.js";
import { addPageData } from "./uploads.js";

const SIGHT = 8; // results visible without scrolling

const MODES = {
  online: ["online", "answered from the prepared gallery"],
  candidates: ["candidates", "only the nearest items are re-ranked"],
};

/** Create the top band: the query and the search mode. */
export function band(answer, { change, level }) {
  const { query } = answer;
  const [mode, meaning] = MODES[answer.mode] ?? [answer.mode, ""];
  const name = String(query.name ?? "your vector");
  const words = query.text !== null && query.text === query.name; // a text query
  const seen = words
    ? el("span", { class: "picture stand-in", "aria-hidden": "true" }, icon("words"))
    : picture(query, 192, query.picture ? `The query: ${name}` : "");
  return el(
    "div",
    { class: "band" },
    el("div", { class: "query-picture" }, seen),
    el(
      "div",
      { class: "about" },
      el("h1", {}, el("small", {}, "Query "), name),
      query.text && !words ? el("p", { class: "query-text" }, query.text) : null,
      query.label && query.label !== name ? el("p", { class: "soft" }, String(query.label)) : null,
      el("p", { class: "mode" }, el("b", { class: answer.mode }, mode), `: ${meaning}.`),
    ),
    el(
      "div",
      { class: "choices" },
      level,
      button("Settings", () => change("settings"), { drawing: "tune", kind: "tool needs-sheet", id: "tune" }),
      button("Query", () => change(), { drawing: "seek", kind: "tool needs-sheet", id: "change" }),
    ),
    answer.note ? el("p", { class: "note" }, answer.note) : null,
  );
}

/** Create the header of a column: number of right results, their pattern, time. */
function head(side, title, subtitle, entries, score, seconds) {
  const right = score ? `${score.right} of ${score.of} right` : "";
  return el(
    "div",
    { class: `head ${side}` },
    el("h2", {}, title, " ", el("small", {}, subtitle)),
    score
      ? el(
          "p",
          { class: "score" },
          el("strong", {}, whole(score.right)),
          el("span", {}, ` of ${whole(score.of)} right`),
        )
      : el("p", { class: "score" }, el("span", {}, `${whole(entries.length)} results`)),
    score ? hits(entries, right) : null,
    el(
      "p",
      { class: "time" },
      seconds,
      score?.average_precision === undefined
        ? null
        : el(
            "span",
            { title: "average precision of the list, as deep as it was looked at" },
            `AP ${percent(score.average_precision)}`,
          ),
    ),
  );
}

/** Return the short name of a method: its class and the changed parameters. */
export const methodName = (answer) =>
  String(answer.method ?? "")
    .replace(/^['"]|['"]$/g, "")
    .replace(/\(\)$/, "");

/** Create both headers, with the gain between them. */
export function heads(answer) {
  const { scores, seconds } = answer;
  const gain = scores ? scores.after.right - scores.before.right : null;
  const kind = gain > 0 ? "better" : gain < 0 ? "worse" : "even";
  const known = answer.known_right ? `${whole(answer.known_right)} are right in all` : "";
  return el(
    "div",
    { class: "heads" },
    head("before", "Before", "plain search", answer.before, scores?.before, `search ${time(seconds.search)}`),
    el(
      "div",
      { class: `gain ${gain === null ? "even" : kind}` },
      gain === null
        ? el("span", { class: "toward", "aria-hidden": "true" }, "→")
        : [el("strong", {}, `${gain > 0 ? "+" : gain < 0 ? "−" : "±"}${Math.abs(gain)}`), el("small", {}, known)],
    ),
    head("after", "After", methodName(answer), answer.after, scores?.after, `re-rank ${time(seconds.rerank)}`),
  );
}

/** Add the page's own card of the query to an answer. */
export function named(answer, query) {
  const card = addPageData(answer.query, query);
  const same = card.name === answer.query.name && card.picture === answer.query.picture;
  return same ? answer : { ...answer, query: card };
}

/** Find the visible result that rose most, a right one if known; the page explains it unprompted. */
export function risen(answer) {
  const seen = answer.after.slice(0, SIGHT),
    right = seen.filter((entry) => entry.right === true);
  const rise = (entry) => (entry.other ?? entry.other_beyond ?? Infinity) - entry.rank;
  return (right.length ? right : seen).reduce(
    (best, entry) => (best && rise(best) >= rise(entry) ? best : entry),
    null,
  );
}

/** Describe the answer in a sentence for screen readers. */
export function spoken(answer) {
  const name = answer.query.name ?? "your vector";
  const { scores } = answer;
  const how = scores
    ? `${scores.before.right} of ${scores.before.of} right before, ${scores.after.right} of ${scores.after.of} after.`
    : `${answer.after.length} results before and after.`;
  return `Results for ${name}. ${how}`;
}
