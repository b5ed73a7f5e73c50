// The largest flows of mass of one chain step, drawn as ribbons from source to destination.

import { el, svg, tile } from "./dom.js";
import { percent, plural } from "./numbers.js";

const WIDTH = 300,
  THICK = 110,
  LEAST = 40,
  BAR = 7; // in units of the drawing; all ribbons together are THICK high

/** List the items on one side of the flows, each with its mass and its vertical position. */
function ends(flows, side) {
  const found = new Map();
  for (const flow of flows) {
    const card = flow[side],
      key = `${card.id ?? ""}|${card.name}`;
    const one = found.get(key) ?? { card, mass: 0, key };
    one.mass += flow.mass;
    found.set(key, one);
  }
  return [...found.values()];
}

function placed(list, scale, height) {
  const sizes = list.map((one) => Math.max(LEAST, one.mass * scale));
  const spare = (height - sizes.reduce((sum, size) => sum + size, 0)) / (list.length + 1);
  let top = spare;
  list.forEach((one, place) => {
    one.middle = top + sizes[place] / 2;
    one.next = one.middle - (one.mass * scale) / 2; // start of the next ribbon
    top += sizes[place] + spare;
  });
}

/** Create the section about a step: description, moved mass, ribbons. */
export function flowsOf(step, place, count) {
  const { flows } = step;
  const shown = flows.reduce((sum, flow) => sum + flow.mass, 0);
  const title = el("h3", {}, `Step ${place + 1} of ${count}: what moves`);
  const words = el(
    "p",
    { class: "soft" },
    `From the neighbourhood of ${step.from.name} to that of ${step.to.name}: `,
    el("b", {}, `${percent(step.moved)} of the mass moves`),
    `. This step has ${percent(step.share)} of the cost of the chain.`,
    flows.length
      ? ` The ${plural(flows.length, "largest flow")} ${flows.length === 1 ? "carries" : "carry"} ${percent(shown)}; darker ribbons go farther.`
      : "",
    " Mass is the share that an item has in a neighbourhood.",
  );
  const share = svg(
    "svg",
    {
      class: "share",
      viewBox: "0 0 100 4",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${percent(step.moved)} of the mass moves, ${percent(1 - step.moved)} stays`,
    },
    svg("rect", { class: "track", width: 100, height: 4 }),
    svg("rect", { class: "fill soft", width: 100 * Math.min(1, step.moved), height: 4 }),
    svg("rect", { class: "fill", width: 100 * Math.min(1, shown), height: 4 }),
  );
  const body = flows.length
    ? drawn(flows, shown)
    : el("p", { class: "soft" }, "Nothing has to move: both have the same neighbourhood.");
  return el(
    "section",
    { class: "flow-part", "aria-label": `What moves in step ${place + 1}` },
    title,
    words,
    share,
    body,
  );
}

function drawn(flows, shown) {
  const from = ends(flows, "from"),
    to = ends(flows, "to");
  const scale = THICK / (shown || 1);
  const need = (list) => list.reduce((sum, one) => sum + Math.max(LEAST, one.mass * scale), 0);
  const height = Math.max(need(from), need(to)) + 12;
  placed(from, scale, height);
  placed(to, scale, height);
  const dearest = Math.max(...flows.map((flow) => flow.cost), 1e-12);
  const find = (list, card) => list.find((one) => one.key === `${card.id ?? ""}|${card.name}`);
  const paths = flows.map((flow) => {
    const start = find(from, flow.from),
      stop = find(to, flow.to),
      thick = flow.mass * scale;
    const y = start.next,
      z = stop.next;
    start.next += thick;
    stop.next += thick;
    const left = BAR,
      right = WIDTH - BAR,
      middle = WIDTH / 2;
    const d = `M${left},${y} C${middle},${y} ${middle},${z} ${right},${z} L${right},${z + thick} C${middle},${z + thick} ${middle},${y + thick} ${left},${y + thick} Z`;
    const label = `${flow.from.name} → ${flow.to.name}: ${percent(flow.mass)} of the mass`;
    const path = svg("path", { class: "ribbon", d }, svg("title", {}, label));
    path.style.setProperty("--dear", String(0.25 + 0.6 * (flow.cost / dearest)));
    return path;
  });
  const bars = [
    [from, 0],
    [to, WIDTH - BAR],
  ].flatMap(([list, x]) =>
    list.map((one) =>
      svg("rect", {
        class: "bar",
        x,
        y: one.middle - (one.mass * scale) / 2,
        width: BAR,
        height: Math.max(1.5, one.mass * scale),
        rx: 2,
      }),
    ),
  );
  const drawing = svg(
    "svg",
    { class: "ribbons", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    paths,
    bars,
  );
  const side = (list, kind) =>
    el(
      "ul",
      { class: `givers ${kind}`, "aria-label": kind === "from" ? "Mass leaves" : "Mass arrives" },
      list.map((one) =>
        el(
          "li",
          { style: { top: `${(100 * one.middle) / height}%` }, title: `${one.card.name}: ${percent(one.mass)}` },
          tile(one.card, 96, String(one.card.name)),
          el("span", {}, percent(one.mass).replace(" ", "")),
        ),
      ),
    );
  const figure = el("div", { class: "flows" }, side(from, "from"), drawing, side(to, "to"));
  figure.style.setProperty("--tall", String(Math.max(from.length, to.length)));
  return figure;
}
