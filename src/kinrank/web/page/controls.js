// The tab "Details": number of results, method, its parameters, numbers of the last search, export.

import { button, el } from "./dom.js";
import { plural, whole } from "./numbers.js";
import { control } from "./parameter.js";
import { CANDIDATES, K } from "./state.js";

const PLAIN = { kind: "int", low: 1, choices: null, optional: false, own: true }; // k of the page; methods can have a parameter k as well

export class Controls {
  /**
   * Calls change(part of the state, push): sliders replace the history entry, a new method adds one; and
   * exports.python() and exports.download().
   */
  constructor(panel, start, change, exports) {
    Object.assign(this, { panel, start, change });
    const most = Math.max(6, Math.min(start.limits.k, start.items, 200));
    this.k = control(
      {
        ...PLAIN,
        name: "k",
        high: start.limits.k,
        slider: { min: 5, max: most, log: true },
        meaning: "how many results are shown",
      },
      K,
      (k) => change({ k: k ?? K }),
    );
    this.candidates = control(
      {
        ...PLAIN,
        name: "candidates",
        high: start.limits.candidates,
        slider: { min: 20, max: start.limits.candidates, log: true },
        meaning: "how many of the nearest are re-ranked",
      },
      CANDIDATES,
      (candidates) => change({ candidates: candidates ?? CANDIDATES }),
    );
    this.way = el("p", { class: "way" });
    this.method = this.methods();
    this.reset = button("Reset all", () => change({ parameters: {} }), { kind: "plain", id: "reset-all" });
    this.about = el("div", { class: "about-method" });
    this.question = el("div", { class: "parameters" }); // parameters that set others
    this.place = el("div", { class: "parameters" });
    this.facts = el("dl", { id: "search-facts" });
    this.count = el("summary", {});
    this.more = el("details", { id: "all-parameters" }, this.count, this.reset, this.place);
    const group = (title, ...inside) => el("div", { class: "group" }, el("h2", {}, title), inside);
    panel.replaceChildren(
      group("Results", this.k),
      group("Method", this.method, this.about, this.way, this.question, this.candidates, this.more),
      group("This search", this.facts),
      group(
        "Use elsewhere",
        el(
          "div",
          { class: "exports" },
          button("Python", () => exports.python(), { drawing: "code", id: "copy-python" }),
          button("Download", () => exports.download(), { drawing: "save", id: "save", "aria-haspopup": "dialog" }),
        ),
      ),
    );
  }

  /** Show the numbers of the last search: pairs of name and value. */
  tell(facts) {
    const rows = [...facts, ["numbers per vector", whole(this.start.dimensions)]];
    this.facts.replaceChildren(...rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  }

  /** Show a state. Controls are rebuilt only for a new method, so that a slider in use is never replaced. */
  show(state) {
    const name = state.method ?? this.start.prepared.method;
    if (this.built !== name) this.build(name);
    const changed = Object.keys(state.parameters).length > 0;
    const direct = name === this.start.prepared.method && !changed;
    this.k.update(state.k === K ? undefined : state.k);
    this.candidates.update(state.candidates === CANDIDATES ? undefined : state.candidates);
    this.candidates.hidden = direct;
    this.method.value = name;
    this.reset.hidden = !changed;
    if (changed) this.more.open = true;
    this.way.className = `way ${direct ? "online" : "candidates"}`;
    this.way.textContent = direct
      ? "Uses the prepared gallery: all items are searched."
      : "Not the prepared settings: only the nearest candidates are re-ranked.";
    for (const one of this.parameters) one.update(state.parameters[one.dataset.parameter]);
  }

  build(name) {
    const { start } = this;
    this.built = name;
    const declared = start.methods.find((one) => one.name === name) ?? { parameters: [] };
    const given = name === start.prepared.method ? start.prepared.parameters : {};
    this.parameters = declared.parameters.map((one) =>
      control(one, one.name in given ? given[one.name] : one.default, (value) => this.set(one.name, value)),
    );
    this.count.textContent = plural(this.parameters.length, "parameter");
    this.more.hidden = this.parameters.length === 0;
    const leads = (node) => declared.parameters.some((one) => one.follows === node.dataset.parameter);
    this.question.replaceChildren(...this.parameters.filter(leads));
    this.place.replaceChildren(...this.parameters.filter((node) => !leads(node)));
    this.about.replaceChildren(
      declared.summary ? el("p", { class: "meaning" }, declared.summary) : "",
      declared.paper ? el("p", { class: "meaning paper" }, declared.paper) : "",
    );
  }

  set(name, value) {
    this.change((present) => {
      const parameters = { ...present.parameters };
      if (value === undefined) delete parameters[name];
      else parameters[name] = value;
      return { parameters };
    });
  }

  methods() {
    const { start, change } = this;
    const option = (one) => el("option", { value: one.name }, one.name);
    const [prepared, others] = [true, false].map((is) =>
      start.methods.filter((one) => (one.name === start.prepared.method) === is),
    );
    const select = el(
      "select",
      { id: "method", "aria-label": "Method" },
      el("optgroup", { label: "prepared" }, prepared.map(option)),
      el("optgroup", { label: "over candidates" }, others.map(option)),
    );
    select.addEventListener("change", () =>
      change({ method: select.value === start.prepared.method ? null : select.value, parameters: {} }, true),
    );
    return select;
  }
}

/** Create the selection of the ground truth, if there are several. */
export function levelChoice(start, state, change) {
  if (start.levels.length < 2) return null;
  const present = state.level ?? usualLevel(start);
  const select = el(
    "select",
    { id: "level", "aria-label": "What counts as right" },
    start.levels.map((one) => el("option", { value: one, selected: one === present }, one)),
  );
  select.addEventListener("change", () => change({ level: select.value }, true));
  return el("div", { class: "level" }, el("span", { "aria-hidden": "true" }, "Truth"), select);
}

export const usualLevel = (start) => (start.levels.includes("medium") ? "medium" : (start.levels[0] ?? null));
