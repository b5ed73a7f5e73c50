// Summary of an answer: the query, what re-ranking changed, the scores of both lists.

import { button, el, icon, picture } from "./dom.js";
import { hits } from "./lines.js";
import { nameOf } from "./names.js";
import { percent, time, whole } from "./numbers.js";
import { same } from "./state.js";
import { addPageData } from "./uploads.js";

const SIGHT = 8; // results visible without scrolling

/** Create the top band: the query, and the choice of view. */
export function band(answer, { change, level, views }) {
  const { query } = answer;
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
      el("h1", {}, el("small", {}, words ? "Results for " : "Similar to "), words ? name : nameOf(name)),
      query.text && !words ? el("p", { class: "query-text" }, query.text) : null,
      query.label && query.label !== name ? el("p", { class: "soft" }, String(query.label)) : null,
    ),
    el(
      "div",
      { class: "choices" },
      button("Search", () => change(), { drawing: "seek", kind: "tool primary needs-sheet", id: "change" }),
      button("Details", () => change("settings"), { drawing: "tune", kind: "tool needs-sheet", label: "Details", id: "tune" }),
      level,
      views,
    ),
    answer.note ? el("p", { class: "note" }, answer.note) : null,
  );
}

/** Say in a sentence what re-ranking changed, with links to the comparison and to an explanation. */
export function lead(answer, thing, example, { compare, explain }) {
  const { scores } = answer;
  const count = answer.after.length;
  const fresh = answer.after.filter((entry) => entry.other === null).length;
  const things = count === 1 ? thing : `${thing}s`;
  const words = scores
    ? `${whole(scores.after.right)} of the first ${whole(scores.after.of)} are right; with plain search, ${whole(scores.before.right)}.`
    : fresh
      ? `${whole(fresh)} of these ${whole(count)} ${things} ${fresh === 1 ? "is" : "are"} not among the first ${whole(count)} of a plain search.`
      : `Plain search finds the same ${things}${answer.after.every((entry) => entry.other === entry.rank) ? " in the same order" : ", in another order"}.`;
  const one = answer.after.find((entry) => same(entry.id, example)) ?? notable(answer);
  return el(
    "p",
    { class: "lead" },
    el("span", {}, words),
    button("See before and after", compare, { kind: "plain", id: "see-compare" }),
    one ? button(`Why is ${baseOf(one.name)} here?`, () => explain(one), { kind: "plain", id: "see-why" }) : null,
  );
}

/** Find the first result that plain search did not have in sight, a right one if known. */
function notable(answer) {
  const isNew = (entry) => entry.other === null || (entry.rank <= SIGHT && entry.other > SIGHT);
  return answer.after.find((entry) => isNew(entry) && (!answer.judged || entry.right === true)) ?? null;
}

const baseOf = (name) => String(name).split("/").at(-1) || String(name);

/** Create the header of a column: number of right results, and their pattern. */
function head(side, title, subtitle, entries, score) {
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
  );
}

/** Return the short name of a method: its class and the changed parameters. */
export const methodName = (answer) =>
  String(answer.method ?? "")
    .replace(/^['"]|['"]$/g, "")
    .replace(/\(\)$/, "");

/** Create both headers, with the gain between them. */
export function heads(answer) {
  const { scores } = answer;
  const gain = scores ? scores.after.right - scores.before.right : null;
  const kind = gain > 0 ? "better" : gain < 0 ? "worse" : "even";
  const known = answer.known_right ? `${whole(answer.known_right)} are right in all` : "";
  return el(
    "div",
    { class: "heads" },
    head("before", "Before", "plain search", answer.before, scores?.before),
    el(
      "div",
      { class: `gain ${gain === null ? "even" : kind}` },
      gain === null
        ? el("span", { class: "toward", "aria-hidden": "true" }, "→")
        : [el("strong", {}, `${gain > 0 ? "+" : gain < 0 ? "−" : "±"}${Math.abs(gain)}`), el("small", {}, known)],
    ),
    head("after", "After", answer.mode === "online" ? "re-ranked" : methodName(answer), answer.after, scores?.after),
  );
}

/** Add the page's own card of the query to an answer. */
export function named(answer, query) {
  const card = addPageData(answer.query, query);
  const same = card.name === answer.query.name && card.picture === answer.query.picture;
  return same ? answer : { ...answer, query: card };
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

/** List the numbers of an answer for the details: times, average precision, and how it was searched. */
export function factsOf(answer) {
  const { scores, seconds } = answer;
  const facts = [
    ["mode", answer.mode === "online" ? "online: all items are searched" : `${answer.mode}: only the nearest are re-ranked`],
    ["search", time(seconds.search)],
    ["re-ranking", time(seconds.rerank)],
  ];
  for (const side of ["before", "after"]) {
    const precision = scores?.[side].average_precision;
    if (precision !== undefined) facts.push([`average precision ${side}`, percent(precision)]);
  }
  return facts;
}
