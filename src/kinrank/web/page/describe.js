// Words that describe what is looked for -> a query, where the service can encode texts.

import { button, el, icon } from "./dom.js";

const LONGEST = 10_000; // letters that the service takes

/** The form; it has `shows(query)`, which puts the words of the present query there. */
export function describeForm(asked) {
  const field = el("input", {
    type: "search",
    id: "describe",
    autocomplete: "off",
    enterkeyhint: "search",
    maxlength: String(LONGEST),
  });
  const form = el(
    "form",
    {
      class: "describe",
      role: "search",
      onsubmit: (event) => {
        event.preventDefault();
        const text = field.value.trim();
        if (text) asked({ text: text.toWellFormed?.() ?? text });
        else field.focus();
      },
    },
    el("label", { for: "describe" }, "Describe what you look for"),
    el(
      "div",
      { class: "find" },
      el("span", { class: "field" }, icon("words"), field),
      button("", null, { drawing: "seek", kind: "tool icon primary", label: "Search", type: "submit" }),
    ),
  );
  form.shows = (query) => {
    if (document.activeElement !== field || query?.text !== undefined) field.value = query?.text ?? "";
  };
  return form;
}
