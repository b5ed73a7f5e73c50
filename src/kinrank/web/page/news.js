// Announcement of items that are added while the page is open, for example by `kinrank serve --watch`.

import { ask } from "./api.js";
import { button, byId, el, tile } from "./dom.js";
import { plural } from "./numbers.js";
import { say } from "./say.js";

const PAUSE = 4000; // milliseconds between two requests
const SHOWN = 8;

export class News {
  /** Callbacks: ask(card) searches with a new item; update() repeats the search and lists the items again. */
  constructor(start, thing, { ask: asked, update }) {
    Object.assign(this, { thing, asked, update, version: start.version, added: 0, cards: [] });
    this.root = el("section", { class: "news", "aria-label": "New in the gallery", hidden: true });
    if (start.writable) this.later();
  }

  later() {
    setTimeout(() => this.look(), PAUSE);
  }

  async look() {
    if (!document.hidden) {
      try {
        const found = await ask(`view/news?version=${this.version}`);
        this.version = found.version;
        if (found.added) this.show(found);
      } catch {
        // the next search shows the problem
      }
    }
    this.later();
  }

  show({ added, cards, items }) {
    this.added += added;
    this.cards = [...cards.reverse(), ...this.cards].slice(0, SHOWN);
    byId("facts").textContent = plural(items, this.thing);
    const words = `${this.added} new ${this.added === 1 ? this.thing : `${this.thing}s`}`;
    const seen = this.cards.map((card) => {
      const node = button("", () => this.end(() => this.asked(card)), { kind: "new-item", label: `Search with ${card.name}` });
      node.append(tile(card, 96));
      return node;
    });
    this.root.replaceChildren(
      el("p", {}, el("b", {}, words)),
      el("div", { class: "chips" }, seen),
      button("Update the results", () => this.end(this.update), { kind: "tool primary", id: "update" }),
      button("", () => this.end(), { drawing: "close", kind: "tool icon", label: "Close the announcement" }),
    );
    this.root.hidden = false;
    say(`${words}.`);
  }

  end(next = () => {}) {
    Object.assign(this, { added: 0, cards: [] });
    this.root.hidden = true;
    next();
  }
}
