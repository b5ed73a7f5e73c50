// Panel that explains one result: sentence, the two routes, the map, the flows.

import { ask } from "./api.js";
import { routes } from "./chain.js";
import { button, el, tile } from "./dom.js";
import { mapOf } from "./map.js";
import { rank, short, whole } from "./numbers.js";
import { flowsOf } from "./ribbons.js";

export class Why {
  /** Callbacks: closed(), open(card) explains another item, ask(card) searches with it, mark(card, kind). */
  constructor(root, hooks) {
    this.root = root;
    this.hooks = hooks;
    this.item = null;
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
      el("h2", { id: "why-title", tabindex: "-1" }, el("small", {}, "Why it moved "), name),
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
    this.item = card;
    const { steps } = answer;
    const dearest = steps.reduce((best, one, n) => (one.cost > steps[best].cost ? n : best), 0);
    const flows = el("div", { class: "flow-place" });
    const choose = (place) => flows.replaceChildren(steps.length ? flowsOf(steps[place], place, steps.length) : "");
    const parts = [];
    if (answer.map?.points?.length > 1) parts.push(mapOf(answer, this.hooks.open));
    if (steps.length) parts.push(flows);
    this.frame(
      String(card.name),
      this.actions(card, markable, mark),
      jump(answer),
      el("p", { class: "words" }, answer.words),
      card.text ? el("blockquote", { class: "full-text" }, card.text) : null,
      steps.length || answer.reached ? routes(answer, query, card, dearest, choose) : null,
      otherScore(answer),
      reason ? el("p", { class: "soft remark" }, reason) : null,
      el("div", { class: "parts" }, parts),
    );
    choose(dearest);
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
  const { rank_before: before, rank_after: after } = answer;
  if (!before && !after) return null;
  const way = before === after ? "same" : (after || Infinity) < (before || Infinity) ? "up" : "down";
  const far = before && after ? ` ${whole(Math.abs(before - after))}` : "";
  return el(
    "p",
    { class: `ranks ${way}` },
    el("small", {}, "rank "),
    el("span", { class: "from" }, rank(before)),
    el("span", { class: "to-sign" }, " → "),
    el("strong", {}, rank(after)),
    el("em", { class: `move ${way}` }, way === "same" ? "same place" : way + far),
  );
}

/** Show what else counts besides the chain, if anything. */
function otherScore(answer) {
  if (!answer.direct) return null;
  const percent = (share) => `${Math.round(100 * share)} %`;
  return el(
    "p",
    { class: "soft remark" },
    `Apart from the plain distance, the chain makes ${percent(1 - answer.direct)} of the score. The other ${percent(answer.direct)} compares the wider neighbourhoods of query and result, which overlap by ${percent(answer.shared)}.`,
  );
}
