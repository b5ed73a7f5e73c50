// Form for a text query, if the service can encode texts.

import { button, el, icon } from "./dom.js";

const LONGEST = 10_000; // characters that the service accepts

/** Create the form. Its method `shows(query)` fills in the text of the current query. */
export function describeForm(onQuery) {
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
        if (text) onQuery({ text: text.toWellFormed?.() ?? text });
        else field.focus();
      },
    },
    el("label", { for: "describe" }, "Describe what you are looking for"),
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
