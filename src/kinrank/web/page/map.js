// Map of the query, the chain and the results, animated from the neighbourhood before re-ranking to the one after.

import { button, el, initials, sourceOf, still, svg } from "./dom.js";

const WIDTH = 600,
  HEIGHT = 380,
  EDGE = 34;
const TAG = 12; // pixels below a picture for its label
const SLOW = 1500; // milliseconds of the animation
const SIZES = { query: 54, result: 54, chain: 42 };
const OTHERS = 27;

export const NOTE =
  "Before: distance on the map follows the distance between vectors, as far as two dimensions allow. After: two items are close if each ranks the other high after re-ranking, among the items shown.";

/** Compute positions in the drawing, and push overlapping pictures apart. */
function spread(points, key, sizes) {
  const all = points.flatMap((point) => [point.before, point.after]); // one frame for both states, so that every visible movement is real
  const [xs, ys] = [0, 1].map((axis) => all.map((place) => place[axis]));
  const left = Math.min(...xs),
    top = Math.min(...ys);
  const wide = Math.max(Math.max(...xs) - left, 1e-9),
    high = Math.max(Math.max(...ys) - top, 1e-9);
  // both axes fill the drawing, but neither is stretched by more than half, so that near items stay near
  const fit = Math.min((WIDTH - 2 * EDGE) / wide, (HEIGHT - 2 * EDGE) / high);
  const across = Math.min((WIDTH - 2 * EDGE) / wide, 1.5 * fit),
    down = Math.min((HEIGHT - 2 * EDGE) / high, 1.5 * fit);
  const places = points.map((point) => [
    WIDTH / 2 + (point[key][0] - left - wide / 2) * across,
    HEIGHT / 2 + (point[key][1] - top - high / 2) * down,
  ]);
  for (let round = 0; round < 60; round += 1) {
    for (let a = 0; a < places.length; a += 1) {
      for (let b = a + 1; b < places.length; b += 1) {
        const need = 0.5 * (sizes[a] + sizes[b]);
        let x = places[b][0] - places[a][0],
          y = places[b][1] - places[a][1];
        const far = Math.hypot(x, y);
        if (far >= need) continue;
        if (far < 1e-6) [x, y] = [Math.cos(a + b), Math.sin(a + b)];
        const push = (need - far) / (2 * Math.max(far, 1));
        places[a] = [places[a][0] - x * push, places[a][1] - y * push];
        places[b] = [places[b][0] + x * push, places[b][1] + y * push];
      }
    }
    for (const place of places) {
      place[0] = Math.min(WIDTH - EDGE, Math.max(EDGE, place[0]));
      place[1] = Math.min(HEIGHT - EDGE - TAG, Math.max(EDGE, place[1]));
    }
  }
  return places;
}

function point(one, kind, size, number) {
  const truth = one.right === true ? "right" : one.right === false ? "wrong" : "open";
  const half = size / 2,
    name = String(one.card.name);
  const inside = one.card.picture
    ? svg("image", {
        href: sourceOf(one.card, 96),
        x: -half,
        y: -half,
        width: size,
        height: size,
        preserveAspectRatio: "xMidYMid slice",
      })
    : svg("text", { class: "initials", y: 4 }, initials(one.card));
  const group = svg(
    "g",
    { class: `point ${kind} ${truth}`, data: { point: number } },
    svg("title", {}, name),
    svg("rect", { class: "ground", x: -half, y: -half, width: size, height: size, rx: 5 }),
    inside,
    svg("rect", { class: "frame", x: -half, y: -half, width: size, height: size, rx: 5 }),
  );
  if (kind === "query" || kind === "result") group.append(svg("text", { class: "tag", y: half + 13 }, kind));
  return group;
}

/** Create the section with the map. Calls `open(card)` when an item is clicked. */
export function mapOf(answer, open) {
  const { points, chain } = answer.map;
  const aim = points.findIndex((one) => one.card.id === answer.item?.id);
  const last = chain.length > 1 ? chain.at(-1) : aim,
    middle = new Set([...chain, aim]);
  const kinds = points.map((one, n) =>
    one.role === "query" ? "query" : n === last ? "result" : middle.has(n) ? "chain" : one.role,
  );
  const sizes = kinds.map((kind) => SIZES[kind] ?? OTHERS);
  const places = { before: spread(points, "before", sizes), after: spread(points, "after", sizes) };
  const drawings = points.map((one, n) => point(one, kinds[n], sizes[n], n));
  const walk = svg("polyline", { class: "map-chain" });
  const straight = svg("line", { class: "map-straight" });
  const ghost = svg("g", { class: "ghost" }), // position of the result before re-ranking
    ghostWords = svg("g", { class: "ghost" });
  if (last > 0) {
    const [x, y] = places.before[last],
      half = SIZES.result / 2;
    ghost.append(svg("rect", { x: x - half, y: y - half, width: SIZES.result, height: SIZES.result, rx: 5 }));
    const tags = places.after.filter((_, n) => ["query", "result"].includes(kinds[n])); // with words of their own
    const covered = tags.some(([left, top]) => Math.abs(left - x) < 1.6 * half && Math.abs(top - y) < half);
    if (!covered) ghostWords.append(svg("text", { x, y: y + half + TAG }, "was here"));
  }
  const order = { before: 0, after: 1, both: 2, chain: 4, query: 5, result: 6 };
  const sorted = drawings.map((_, n) => n).sort((a, b) => (order[kinds[a]] ?? 0) - (order[kinds[b]] ?? 0));
  const below = sorted.filter((n) => !middle.has(n)),
    above = sorted.filter((n) => middle.has(n));
  const words = `Map of ${points.length} items around the query. ${NOTE}`;
  const drawing = svg(
    "svg",
    { class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
    below.map((n) => drawings[n]),
    ghost,
    straight,
    walk,
    above.map((n) => drawings[n]),
    ghostWords,
  );
  drawing.addEventListener("click", (event) => {
    const found = event.target.closest(".point");
    const card = found && points[Number(found.dataset.point)].card;
    if (card && card.id !== null && card.id !== undefined && !found.classList.contains("query")) open(card);
  });

  let now = 0,
    frame = 0;
  const draw = (share) => {
    now = share;
    const at = points.map((_, n) =>
      [0, 1].map((axis) => places.before[n][axis] * (1 - share) + places.after[n][axis] * share),
    );
    drawings.forEach((group, n) =>
      group.setAttribute("transform", `translate(${at[n][0].toFixed(1)},${at[n][1].toFixed(1)})`),
    );
    walk.setAttribute("points", chain.map((n) => at[n].map((one) => one.toFixed(1)).join(",")).join(" "));
    if (chain.length > 1) {
      const [a, b] = [at[chain[0]], at[last]];
      for (const [name, value] of [
        ["x1", a[0]],
        ["y1", a[1]],
        ["x2", b[0]],
        ["y2", b[1]],
      ])
        straight.setAttribute(name, value.toFixed(1));
    }
    drawing.style.setProperty("--now", share.toFixed(3));
  };
  const goTo = (target, wait = 0) => {
    cancelAnimationFrame(frame);
    if (still()) return draw(target);
    const from = now,
      begin = performance.now() + wait;
    const tick = (time) => {
      const passed = Math.min(1, Math.max(0, (time - begin) / SLOW));
      const eased = passed < 0.5 ? 4 * passed ** 3 : 1 - (-2 * passed + 2) ** 3 / 2;
      draw(from + (target - from) * eased);
      if (passed < 1 && drawing.isConnected) frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  };
  const radio = (value, text) =>
    el(
      "label",
      {},
      el("input", { type: "radio", name: "map-time", value, onchange: () => goTo(value === "after" ? 1 : 0) }),
      el("span", {}, text),
    );
  const choice = el(
    "div",
    { class: "segments small", role: "radiogroup", "aria-label": "Map before or after" },
    radio("before", "Before"),
    radio("after", "After"),
  );
  const set = (value) => {
    choice.querySelector(`[value="${value}"]`).checked = true;
  };
  const play = button(
    "Play",
    () => {
      cancelAnimationFrame(frame);
      draw(0);
      set("after");
      goTo(1, 500);
    },
    { drawing: "play", kind: "tool small" },
  );

  draw(0);
  set("after");
  goTo(1, 900);
  return el(
    "section",
    { class: "map-part", "aria-label": "Map" },
    el("div", { class: "part-head" }, el("h3", {}, "The neighbourhood"), choice, play),
    drawing,
    legend(points, chain.length > 1),
  );
}

function legend(points, walked) {
  const judged = points.some((one) => one.right !== null && one.right !== undefined);
  const entry = (kind, words) => el("li", {}, el("i", { class: `key ${kind}`, "aria-hidden": "true" }), words);
  return el(
    "ul",
    { class: "legend" },
    walked ? [entry("walk", "the chain"), entry("straight", "straight")] : null,
    judged
      ? [entry("right", "right"), entry("wrong", "wrong")]
      : [entry("before", "near before"), entry("after", "near now")],
  );
}
