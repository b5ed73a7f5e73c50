// Control for one method parameter: slider, switch or selection, with description and reset button.

import { button, el } from "./dom.js";

const STEPS = 400; // positions of a logarithmic slider
const QUESTIONS = { answers: "How many right answers does a query usually have?" }; // labels of parameters, in plain words

/** Format a value. */
export const shown = (value) =>
  value === null ? "automatic" : typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);

/** Convert between values and slider positions; wide ranges use a logarithmic scale. */
function scale({ min, max, step, log }) {
  if (!log || min <= 0) return { min, max, step: step || "any", place: (value) => value, value: (place) => place };
  const span = Math.log(max / min);
  return {
    min: 0,
    max: STEPS,
    step: 1,
    place: (value) => (STEPS * Math.log(Math.max(value, min) / min)) / span,
    value: (place) => Number((min * Math.exp((span * place) / STEPS)).toPrecision(3)),
  };
}

/**
 * Create the control. `usual` is the default; `changed(value)` reports a new value, undefined for the default.
 * The element's method `update(value)` shows a value, undefined for the default.
 */
export function control(declared, usual, changed) {
  const { name, kind, choices } = declared;
  const set = (next) => changed(next === usual ? undefined : next);
  const id = `${declared.own ? "own" : "p"}-${name}`,
    describe = { "aria-describedby": `${id}-about` };
  const make = kind === "bool" ? onOff : choices ? oneOf : numeric;
  const { head, body, show } = make(declared, id, set, describe);
  const reset = button("reset", () => changed(undefined), {
    kind: "plain reset",
    label: `Reset ${name}`,
    id: `${id}-reset`,
  });
  const node = el(
    "div",
    { class: "control", data: { parameter: name } },
    el("div", { class: "control-head" }, head, reset),
    body,
    el("p", { class: "meaning", id: `${id}-about` }, declared.meaning),
  );
  node.update = (value) => {
    node.classList.toggle("changed", value !== undefined);
    reset.hidden = value === undefined;
    show(value === undefined ? usual : value);
  };
  return node;
}

function onOff({ name }, id, set, describe) {
  const input = el("input", { type: "checkbox", role: "switch", id, onchange: () => set(input.checked), ...describe });
  const head = el("label", { class: "switch", for: id }, input, el("span", {}, name));
  return { head, body: [], show: (value) => (input.checked = Boolean(value)) };
}

function oneOf({ name, choices }, id, set, describe) {
  const input = el(
    "select",
    { id, onchange: () => set(input.value), ...describe },
    choices.map((one) => el("option", { value: one }, one)),
  );
  return {
    head: el("label", { for: id }, QUESTIONS[name] ?? name),
    body: [input],
    show: (value) => (input.value = value),
  };
}

function numeric(declared, id, set, describe) {
  const { name, kind, optional, slider } = declared;
  const rounded = (value) => (kind === "int" ? Math.round(value) : Number(value.toPrecision(4)));
  const middle = slider
    ? slider.log
      ? Math.sqrt(slider.min * slider.max)
      : (slider.min + slider.max) / 2
    : (declared.low ?? 1);
  const number = el("input", {
    type: "number",
    class: "value",
    step: kind === "int" ? 1 : "any",
    min: declared.low,
    max: declared.high,
    placeholder: declared.follows ? "automatic" : "measured",
    "aria-label": `${name}, exactly`,
    ...describe,
  });
  number.addEventListener("change", () => {
    if (number.value !== "" && number.checkValidity()) set(rounded(Number(number.value)));
    else number.reportValidity();
  });
  const by = slider && scale(slider);
  const range = slider && el("input", { type: "range", id, min: by.min, max: by.max, step: by.step, ...describe });
  range?.addEventListener("input", () => set(rounded(by.value(Number(range.value)))));
  const measured = optional && el("input", { type: "checkbox", id: `${id}-measured` });
  measured &&
    measured.addEventListener("change", () => set(measured.checked ? null : rounded(Number(middle.toPrecision(2)))));

  const show = (value) => {
    number.disabled = value === null;
    number.value = value === null ? "" : shown(value);
    if (measured) measured.checked = value === null;
    if (!range) return;
    range.disabled = value === null;
    range.setAttribute("aria-valuetext", shown(value));
    if (document.activeElement !== range || rounded(by.value(Number(range.value))) !== value)
      range.value = String(by.place(value ?? middle));
  };
  const switched =
    measured &&
    el(
      "label",
      { class: "switch small", for: `${id}-measured` },
      measured,
      el("span", {}, declared.follows ? `set by ${declared.follows}` : "measured from the data"),
    );
  return { head: [el("label", { for: slider ? id : null }, name), number], body: [range, switched], show };
}
