// Virtual grid for up to 200,000 entries: only the visible cells exist, and entries are fetched on demand.

import { el, icon, paused, picture } from "./dom.js";

const PAGE = 60; // entries per request
const BEYOND = 3; // extra rows above and below the visible ones
const TALL = 8_000_000; // pixels; browsers do not lay out taller elements reliably

export class Grid {
  /**
   * Callbacks: fetched(offset, limit) returns {total, items}, or undefined if a newer request replaced it; picked(card)
   * for a chosen entry; onTotal(total) when the number of entries is known.
   */
  constructor({ label, fetched, picked, onTotal, failed }) {
    Object.assign(this, { fetched, picked, onTotal, failed });
    this.inner = el("div", { class: "grid-inner", role: "presentation" });
    this.root = el("div", { class: "grid", role: "listbox", tabindex: "0", "aria-label": label }, this.inner);
    this.cells = new Map();
    this.shape = "pictures";
    this.chosen = () => false;
    this.root.addEventListener("scroll", () => this.draw(), { passive: true });
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.root.addEventListener("focus", () => this.point(this.active < 0 ? this.firstVisible() : this.active));
    this.fetchSoon = paused(() => this.fetchVisible(), 60);
    new ResizeObserver(() => this.measure()).observe(this.root);
    this.restart();
  }

  /** Clear the grid and start at the top, after a new search or another kind of entries. */
  restart() {
    this.run = (this.run ?? 0) + 1;
    this.pages = new Map();
    this.total = null;
    this.active = -1;
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
    this.root.scrollTop = 0;
    this.root.removeAttribute("aria-activedescendant");
    this.root.setAttribute("aria-busy", "true");
    this.load(0);
  }

  async load(page) {
    if (this.pages.has(page)) return;
    this.pages.set(page, null);
    const run = this.run;
    try {
      const answer = await this.fetched(page * PAGE, PAGE);
      if (run !== this.run || !answer) return;
      this.pages.set(page, answer.items);
      if (this.total !== answer.total) {
        this.total = answer.total;
        this.onTotal(answer.total);
      }
      this.root.removeAttribute("aria-busy");
      this.measure();
      this.fill();
    } catch (problem) {
      if (run !== this.run) return;
      this.pages.delete(page);
      this.failed(problem);
    }
  }

  card(index) {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE] ?? null;
  }

  measure() {
    const width = this.root.clientWidth;
    if (!width || this.total === null) return;
    const gap = 6;
    if (this.shape === "pictures") {
      this.columns = Math.max(2, Math.floor((width + gap) / (width > 620 ? 118 : 82)));
      this.side = Math.floor((width - gap * (this.columns - 1)) / this.columns);
      this.height = this.side;
    } else {
      this.columns = width > 900 ? 2 : 1;
      this.side = Math.floor((width - gap * (this.columns - 1)) / this.columns);
      this.height = this.shape === "texts" ? 74 : 38;
    }
    this.step = this.height + gap;
    this.gap = gap;
    const rows = Math.ceil(this.total / this.columns);
    const tall = Math.max(0, rows * this.step - gap);
    this.squeeze = tall > TALL ? TALL / tall : 1; // if taller, one pixel of scrolling covers several pixels of the grid
    this.inner.style.height = `${tall * this.squeeze}px`;
    for (const cell of this.cells.values()) cell.remove();
    this.cells.clear();
    this.draw();
  }

  /** Return the visible rows and the position of the first one. */
  window() {
    const seen = this.root.clientHeight,
      top = this.root.scrollTop;
    const room = this.inner.clientHeight - seen,
      whole = this.inner.clientHeight / this.squeeze - seen;
    const real = this.squeeze < 1 && room > 0 ? (top / room) * whole : top;
    return { first: Math.floor(real / this.step), last: Math.ceil((real + seen) / this.step), shift: top - real };
  }

  firstVisible() {
    return this.step ? Math.min(this.window().first * this.columns, (this.total ?? 1) - 1) : 0;
  }

  draw() {
    if (!this.step || !this.total) return;
    const { first, last, shift } = this.window();
    const from = Math.max(0, first - BEYOND) * this.columns;
    const to = Math.min(this.total, (last + BEYOND) * this.columns);
    for (const [index, cell] of this.cells) {
      if (index < from || index >= to) {
        cell.remove();
        this.cells.delete(index);
      }
    }
    for (let index = from; index < to; index += 1) {
      const cell = this.cells.get(index) ?? this.add(index);
      const left = (index % this.columns) * (this.side + this.gap);
      cell.style.transform = `translate(${left}px, ${Math.floor(index / this.columns) * this.step + shift}px)`;
    }
    this.fetchSoon();
  }

  add(index) {
    const cell = el("div", {
      class: `cell ${this.shape}`,
      role: "option",
      id: `option-${index}`,
      "aria-posinset": index + 1,
      "aria-setsize": this.total,
      "aria-selected": "false",
      "aria-label": "loading",
      onclick: () => this.choose(index),
      style: { width: `${this.side}px`, height: `${this.height}px` },
    });
    this.cells.set(index, cell);
    this.inner.append(cell);
    this.dress(cell, index);
    return cell;
  }

  dress(cell, index) {
    const card = this.card(index);
    cell.classList.toggle("active", index === this.active);
    if (!card || cell.dataset.ready) return;
    cell.dataset.ready = "yes";
    const name = card.label && card.label !== card.name ? `${card.name}, ${card.label}` : String(card.name);
    if (this.shape === "pictures") cell.setAttribute("aria-label", name);
    else cell.removeAttribute("aria-label");
    cell.title = name;
    cell.setAttribute("aria-selected", String(this.chosen(card)));
    if (this.shape === "pictures") cell.append(picture(card, 192));
    else cell.append(el("b", {}, String(card.name)), el("span", {}, card.text ?? card.label ?? ""));
    cell.append(el("span", { class: "tick" }, icon("ask")));
  }

  fill() {
    for (const [index, cell] of this.cells) this.dress(cell, index);
  }

  /** Update the highlight of the entry that is the query. */
  mark() {
    for (const [index, cell] of this.cells) {
      const card = this.card(index);
      if (card) cell.setAttribute("aria-selected", String(this.chosen(card)));
    }
  }

  fetchVisible() {
    if (!this.step || !this.total) return;
    const { first, last } = this.window();
    const from = Math.max(0, (first - BEYOND) * this.columns),
      to = Math.min(this.total, (last + BEYOND) * this.columns);
    for (let page = Math.floor(from / PAGE); page * PAGE < to; page += 1) this.load(page);
  }

  choose(index) {
    const card = this.card(index);
    this.point(index, false);
    if (card) this.picked(card);
  }

  /** Move the keyboard focus to an entry and scroll it into view. */
  point(index, scroll = true) {
    if (!this.total || !this.step) return;
    this.active = Math.max(0, Math.min(this.total - 1, index));
    const row = Math.floor(this.active / this.columns);
    const { first, last } = this.window();
    if (scroll && this.squeeze === 1) {
      const top = row * this.step,
        seen = this.root.clientHeight;
      if (top < this.root.scrollTop) this.root.scrollTop = top;
      else if (top + this.height > this.root.scrollTop + seen) this.root.scrollTop = top + this.height - seen;
    } else if (scroll && (row < first || row >= last)) {
      this.root.scrollTop =
        (row / Math.ceil(this.total / this.columns)) * (this.inner.clientHeight - this.root.clientHeight);
    }
    this.draw();
    for (const [place, cell] of this.cells) cell.classList.toggle("active", place === this.active);
    this.root.setAttribute("aria-activedescendant", `option-${this.active}`);
  }

  pressed(event) {
    if (!this.step) return;
    const page = Math.max(1, Math.floor(this.root.clientHeight / this.step)) * this.columns;
    const moves = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: this.columns,
      ArrowUp: -this.columns,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in moves) this.point(Math.max(this.active, 0) + moves[event.key]);
    else if (event.key === "Enter" || event.key === " ") this.choose(Math.max(this.active, 0));
    else return;
    event.preventDefault();
  }
}
