// Bar with the results that are marked right or wrong; it repeats the search with them.

import { button, el, icon, picture } from "./dom.js";
import { plural } from "./numbers.js";
import { idWords, same, wordsId } from "./state.js";

/** Return the reason why results cannot be marked now, or an empty string. */
export function whyNot(start, state) {
  if (start.prepared.method !== "lpmt")
    return `Marks need a gallery that was prepared with LPMT; this one is ${start.prepared.method}'s.`;
  if (state.method || Object.keys(state.parameters).length) {
    return "Marks work with the prepared method only; reset method and parameters to use them.";
  }
  return "";
}

export class Marks {
  /** Callbacks: again(right, wrong) searches with these marks; changed() redraws the rows. */
  constructor({ again, changed }) {
    Object.assign(this, { again, changed });
    this.cards = new Map(); // of all items seen, so that a marked item keeps its picture after it leaves the lists
    this.kinds = new Map();
    this.applied = { right: [], wrong: [] };
    this.root = el("div", { class: "marks-bar", role: "group", "aria-label": "Your marks", hidden: true });
  }

  know(cards) {
    for (const card of cards) this.cards.set(idWords(card.id), card);
  }

  /** Use the marks from the URL. */
  apply(right, wrong) {
    if (same(this.applied, { right, wrong })) return;
    this.applied = { right, wrong };
    this.kinds = new Map([...right.map((id) => [idWords(id), "right"]), ...wrong.map((id) => [idWords(id), "wrong"])]);
  }

  of(id) {
    return this.kinds.get(idWords(id)) ?? null;
  }

  toggle(card, kind) {
    this.know([card]);
    const words = idWords(card.id);
    if (this.kinds.get(words) === kind) this.kinds.delete(words);
    else this.kinds.set(words, kind);
    this.changed();
  }

  list(kind) {
    return [...this.kinds].filter(([, one]) => one === kind).map(([words]) => wordsId(words));
  }

  draw(reason = this.reason ?? "") {
    this.reason = reason;
    this.root.hidden = this.kinds.size === 0;
    if (this.root.hidden) return;
    const right = this.list("right"),
      wrong = this.list("wrong");
    const pending = !same(this.applied, { right, wrong });
    const chips = [...this.kinds].map(([words, kind]) => {
      const card = this.cards.get(words) ?? { name: words, picture: null };
      return el(
        "button",
        {
          type: "button",
          class: `mark-chip ${kind}`,
          "aria-label": `${card.name}: marked ${kind}. Remove the mark`,
          title: `${card.name}: ${kind}`,
          onclick: () => {
            this.kinds.delete(words);
            this.changed();
          },
        },
        picture(card, 96),
        icon(kind === "right" ? "up" : "down"),
      );
    });
    const words = `${plural(right.length, "right", "right")}, ${plural(wrong.length, "wrong", "wrong")}`;
    this.root.replaceChildren(
      el(
        "p",
        {},
        el("b", {}, "Your marks: "),
        words,
        pending ? "" : ". Items marked right stay on top of the results; the comparison leaves out all marked items.",
        reason ? ` ${reason}` : "",
      ),
      el("div", { class: "chips" }, chips),
      el(
        "div",
        { class: "actions" },
        button("Search again with marks", () => this.again(right, wrong), {
          kind: "tool primary",
          id: "again",
          disabled: !pending || Boolean(reason),
        }),
        button(
          "Clear",
          () => {
            this.kinds.clear();
            if (this.applied.right.length + this.applied.wrong.length) this.again([], []);
            else this.changed();
          },
          { kind: "tool", id: "clear-marks" },
        ),
      ),
    );
  }
}
