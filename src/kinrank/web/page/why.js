// Panel that explains one result: sentence, the two routes, the map; the flows and all numbers are details.

import { ask } from "./api.js";
import { routes } from "./chain.js";
import { button, el, tile } from "./dom.js";
import { mapOf, NOTE } from "./map.js";
import { nameOf } from "./names.js";
import { percent, rank, short, whole } from "./numbers.js";
import { flowsOf } from "./ribbons.js";

export class Why {
  /** Callbacks: closed(), open(card) explains another item, ask(card), enlarge(card), mark(card, kind). */
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    this.item = null;
    this.detailed = false; // the details stay open from one result to the next
  }

  frame(name, actions, ...inside) {
    const close = button("", () => this.hooks.closed(), {
      drawing: "close",
      kind: "tool icon close",
      label: "Close the explanation",
      id: "close-why",
    });
    const head = el(
      "div",
      { class: "why-head" },
      el("h2", { id: "why-title", tabindex: "-1" }, el("small", {}, "Why is it here? "), nameOf(name)),
      el("div", { class: "actions" }, actions, close),
    );
    this.root.replaceChildren(head, ...inside.filter(Boolean));
    this.root.hidden = false;
  }

  loading(name) {
    if (!this.root.hidden && this.root.querySelector(".routes"))
      this.root.classList.add("stale"); // the old explanation stays visible until the new one arrives
    else this.frame(String(name), null, el("p", { class: "soft waiting" }, "Looking for the chain …"));
  }

  problem(name, words, again) {
    this.root.classList.remove("stale");
    this.frame(
      String(name),
      null,
      el("div", { class: "problem", role: "alert" }, el("p", {}, words), button("Try again", again)),
    );
  }

  hide() {
    this.root.hidden = true;
    this.root.classList.remove("stale");
    this.root.replaceChildren();
    this.item = null;
  }

  focus() {
    this.root.querySelector("#why-title")?.focus();
  }

  /** Show the answer of `view/chain` for a card and the query's card. */
  show(answer, card, query, { markable, mark, reason }) {
    this.root.classList.remove("stale");
    const isOther = this.item?.id !== card.id;
    this.item = card;
    const { steps } = answer;
    const dearest = steps.reduce((best, one, n) => (one.cost > steps[best].cost ? n : best), 0);
    const flows = el("div", { class: "flow-place" });
    const details = el(
      "details",
      { class: "why-details", open: this.detailed, ontoggle: () => (this.detailed = details.open) },
      el("summary", {}, "Details"),
      numbers(answer),
      flows,
      el("p", { class: "soft remark" }, `The map. ${NOTE}`),
    );
    const show = (place) => flows.replaceChildren(steps.length ? flowsOf(steps[place], place, steps.length) : "");
    const choose = (place) => {
      show(place);
      details.open = true;
    };
    this.frame(
      String(card.name),
      this.actions(card, markable, mark),
      jump(answer),
      el("p", { class: "words" }, answer.words),
      card.text ? el("blockquote", { class: "full-text" }, card.text) : null,
      (steps.length || answer.reached) && (answer.rank_before || answer.rank_after) ? routes(answer, query, card, dearest, choose) : null,
      reason ? el("p", { class: "soft remark" }, reason) : null,
      answer.map?.points?.length > 1 ? mapOf(answer, this.hooks.open) : null,
      details,
    );
    show(dearest);
    if (isOther) this.root.scrollTop = 0;
    if (!card.picture && !card.text) this.neighbours(card);
  }

  actions(card, markable, mark) {
    const one = (kind) =>
      button(kind === "right" ? "Right" : "Wrong", () => this.hooks.mark(card, kind), {
        drawing: kind === "right" ? "up" : "down",
        kind: `tool mark-wide ${kind}`,
        label: `Mark as ${kind}`,
        "aria-pressed": String(mark === kind),
        disabled: !markable,
      });
    return [
      one("right"),
      one("wrong"),
      card.picture &&
        button("Show large", () => this.hooks.enlarge(card), { drawing: "zoom", id: "enlarge", label: "Show large" }),
      button("Search with it", () => this.hooks.ask(card), {
        drawing: "seek",
        id: "ask-with",
        label: "Search with it",
      }),
    ];
  }

  /** List the nearest neighbours of items that have no picture or text. */
  async neighbours(card) {
    const place = el("section", { class: "neighbours" }, el("h3", {}, `Nearest to ${card.name}`));
    this.root.append(place);
    try {
      const found = await ask(`v1/items/${encodeURIComponent(card.id)}`);
      place.append(
        el(
          "ol",
          {},
          found.neighbors.map((one) =>
            el(
              "li",
              {},
              button("", () => this.hooks.open(one), { kind: "plain", label: `Explain ${one.name}` }),
              el("span", { class: "soft" }, short(one.distance)),
            ),
          ),
        ),
      );
      place
        .querySelectorAll("button")
        .forEach((node, n) => node.append(tile(found.neighbors[n], 96), String(found.neighbors[n].name)));
    } catch (problem) {
      place.append(el("p", { class: "soft" }, problem.message));
    }
  }
}

/** Show the rank before and after, in the largest letters of the panel. */
function jump(answer) {
  const { rank_before: before, rank_after: after, depth } = answer;
  if (!before && !after) return null;
  const way = before === after ? "same" : (after || Infinity) < (before || Infinity) ? "up" : "down";
  const far = before && after ? ` ${whole(Math.abs(before - after))}` : "";
  return el(
    "p",
    { class: `ranks ${way}` },
    el("small", {}, "rank "),
    el("span", { class: "from" }, rank(before, "before", depth)),
    el("span", { class: "to-sign" }, " → "),
    el("strong", {}, rank(after, "after", depth)),
    el("em", { class: `move ${way}` }, way === "same" ? "same place" : way + far),
  );
}

/** List the numbers behind the explanation, with what else counts besides the chain. */
function numbers(answer) {
  const rows = [
    ["distance of the plain search", short(answer.distance)],
    ["cost of the chain", short(answer.total)],
    ["alike", "nearer to each other than 99 % of all pairs here"],
  ];
  if (answer.direct) {
    rows.push(["weight of the chain in the score, apart from the distance", percent(1 - answer.direct)]);
    rows.push(["weight of the wider neighbourhoods of query and result", percent(answer.direct)]);
    rows.push(["overlap of these neighbourhoods", percent(answer.shared)]);
  }
  return el(
    "dl",
    {},
    rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
}
