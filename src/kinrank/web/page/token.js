// Dialog for the token of a service. The browser keeps the token in a cookie that scripts cannot read.

import { ask } from "./api.js";
import { byId, el } from "./dom.js";

/** Ask until a token is accepted, then call `entered()`. */
export function askToken(entered) {
  const dialog = byId("token");
  if (dialog.open) return;
  const field = el("input", {
    type: "password",
    id: "token-field",
    autocomplete: "current-password",
    required: true,
    "aria-describedby": "token-problem",
  });
  const problem = el("p", { class: "problem-words", id: "token-problem", role: "alert" });
  const form = el(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        problem.textContent = "";
        try {
          await ask("view/enter", { token: field.value });
          dialog.close();
          entered();
        } catch (error) {
          problem.textContent = error.message;
          field.select();
        }
      },
    },
    el("h2", { id: "token-title" }, "This service needs a token"),
    el(
      "p",
      {},
      "Ask the operator of this service for a token (set there with ",
      el("code", {}, "--token"),
      " or ",
      el("code", {}, "KINRANK_TOKENS"),
      ").",
    ),
    el("label", { for: "token-field" }, "Token"),
    field,
    problem,
    el("div", { class: "actions" }, el("button", { type: "submit", class: "tool primary" }, "Enter")),
  );
  dialog.replaceChildren(form);
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  dialog.showModal();
  field.focus();
}
