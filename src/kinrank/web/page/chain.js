// The two routes from the query to a result: the direct distance, and the small steps along the chain.

import { el, svg, tile } from "./dom.js";
import { percent, plural, rank } from "./numbers.js";

function end(card, kind, truth, words) {
  return el(
    "figure",
    { class: `end at-${kind} ${truth}` },
    tile(card, 192, `${kind}: ${card.name}`),
    el("figcaption", {}, el("b", {}, kind), words ? el("span", {}, words) : null),
  );
}

/** Create an arrow of variable length: the box is its line, an SVG its head. */
const arrow = (kind) =>
  el(
    "span",
    { class: `arrow ${kind}`, "aria-hidden": "true" },
    svg("svg", { viewBox: "0 0 8 10", class: "arrow-head" }, svg("path", { d: "M1,1 L7,5 L1,9" })),
  );

/** Create one step, with its cost as a bar and as a number. Selecting it shows its flows of mass. */
function step(one, place, most, count, chosen) {
  const words = `Step ${place + 1} of ${count}, to ${one.to.name}: ${percent(one.share)} of the cost`;
  const fill = svg("rect", { class: "fill", width: Math.max(1, (100 * one.cost) / most), height: 8 });
  return el(
    "button",
    {
      type: "button",
      class: "step",
      role: "radio",
      "aria-checked": String(chosen),
      tabindex: chosen ? "0" : "-1",
      "aria-label": words,
      title: words,
      data: { step: place },
    },
    arrow("near"),
    el(
      "span",
      { class: "toll" },
      svg(
        "svg",
        { class: "cost", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { class: "track", width: 100, height: 8 }),
        fill,
      ),
      el("span", { class: "price" }, percent(one.share).replace(" ", "")),
    ),
  );
}

/** Create the figure. It calls `choose(step)` when the user selects a step; its method `pick(step)` highlights one. */
export function routes(answer, query, result, chosen, choose) {
  const { steps } = answer;
  const count = steps.length;
  const most = Math.max(...steps.map((one) => one.cost), 1e-12);
  const dense = count > 9 ? "dense" : count > 3 ? "tight" : "roomy";
  const known = new Map((answer.map?.points ?? []).map((one) => [one.card.id, one.right]));
  const truth = (card) => ({ true: "right", false: "wrong" })[known.get(card.id)] ?? "";
  const straight = el(
    "div",
    { class: "straight" },
    arrow("far"),
    el("p", {}, el("b", {}, "plain search "), `→ rank ${rank(answer.rank_before, "before", answer.depth)}`),
  );
  const links = el("ol", { class: `links ${dense}`, role: "radiogroup", "aria-label": "Steps of the chain" });
  steps.forEach((one, place) => {
    const link =
      place < count - 1 &&
      el("span", { class: `link ${truth(one.to)}`, title: String(one.to.name) }, tile(one.to, 96, String(one.to.name)));
    links.append(el("li", { role: "presentation" }, step(one, place, most, count, place === chosen), link));
  });
  const walked = count
    ? el(
        "p",
        { class: "walked" },
        el("b", {}, `${plural(count, "step")} `),
        `→ rank ${rank(answer.rank_after, "after", answer.depth)}${count > 1 ? "; bars: share of the cost" : ""}`,
      )
    : el("p", { class: "walked none" }, "no chain to draw");
  const figure = el(
    "div",
    { class: `routes ${dense}-routes` },
    end(query, "query", "", ""),
    el("div", { class: "ways" }, straight, el("div", { class: "walk" }, links, walked)),
    end(result, "result", truth(result), `rank ${rank(answer.rank_after, "after", answer.depth)}`),
  );

  figure.pick = (place) => {
    for (const one of links.querySelectorAll(".step")) {
      const on = Number(one.dataset.step) === place;
      one.setAttribute("aria-checked", String(on));
      one.tabIndex = on ? 0 : -1;
    }
  };
  const pick = (place, focus) => {
    figure.pick(place);
    if (focus) links.querySelector(`[data-step="${place}"]`).focus();
    choose(place);
  };
  links.addEventListener("click", (event) => {
    const one = event.target.closest(".step");
    if (one) pick(Number(one.dataset.step), false);
  });
  links.addEventListener("keydown", (event) => {
    const one = event.target.closest(".step");
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!one || !move) return;
    event.preventDefault();
    pick((Number(one.dataset.step) + move + count) % count, true);
  });
  return figure;
}
