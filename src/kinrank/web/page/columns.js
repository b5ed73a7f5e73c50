// The two result columns and the lines between them, with keyboard control, hovering and animation.

import { el, still, svg } from "./dom.js";
import { drawLines } from "./lines.js";
import { rowOf } from "./rows.js";
import { idWords } from "./state.js";

const SLIDE = 620; // milliseconds

export class Columns {
  /** Callbacks: opened(entry, byKeys) for a chosen result, pointed(entry) for keyboard focus, marked(entry, kind). */
  constructor({ opened, pointed, marked }) {
    Object.assign(this, { opened, pointed, marked });
    this.before = el("ol", { class: "column before", "aria-label": "Before: plain search" });
    this.after = el("ol", { class: "column after", "aria-label": "After: re-ranked" });
    this.lines = svg("svg", { class: "lines", "aria-hidden": "true", focusable: "false" });
    this.root = el("div", { class: "columns" }, this.before, this.lines, this.after);
    this.answer = null;
    this.selected = null;
    this.groups = new Map();
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.root.addEventListener("pointerover", (event) => this.hover(event.target.closest?.(".row")));
    this.root.addEventListener("pointerleave", () => this.hover(null));
    this.root.addEventListener("focusin", (event) => this.rest(event.target.closest(".row")));
    new ResizeObserver(() => this.draw()).observe(this.lines);
  }

  /** Show an answer. With `fresh`, for a new query, all rows slide in from their old positions. */
  show(answer, look, fresh) {
    const old = new Map(this.answer?.after.map((entry) => [idWords(entry.id), entry.rank]) ?? []);
    this.answer = answer;
    this.before.replaceChildren(...answer.before.map((entry) => rowOf(entry, "before", look(entry), answer.depth)));
    this.after.replaceChildren(...answer.after.map((entry) => rowOf(entry, "after", look(entry), answer.depth)));
    this.draw();
    this.rest(this.row("after", 1) ?? this.row("before", 1));
    this.select(this.selected);
    this.slide(fresh ? null : old);
  }

  draw() {
    if (!this.answer) return;
    this.rowHeight = parseFloat(getComputedStyle(this.root).getPropertyValue("--row"));
    this.groups = drawLines(this.lines, this.answer, this.rowHeight);
    this.select(this.selected);
  }

  slide(old) {
    if (still()) return;
    const size = this.answer.after.length;
    for (const entry of this.answer.after) {
      const from = old ? (old.get(idWords(entry.id)) ?? size + 2) : (entry.other ?? size + 2);
      const row = this.row("after", entry.rank);
      if (!row || from === entry.rank) continue;
      const start = {
        transform: `translateY(${(from - entry.rank) * this.rowHeight}px)`,
        opacity: from > size ? 0 : 1,
      };
      row.animate([start, { transform: "none", opacity: 1 }], { duration: SLIDE, easing: "cubic-bezier(.3,.9,.3,1)" });
    }
    this.lines.animate([{ opacity: 0 }, { opacity: 0, offset: 0.45 }, { opacity: 1 }], { duration: SLIDE });
  }

  /** Update the marks in place, so that keyboard focus stays where it is. */
  mark(of) {
    for (const row of this.root.querySelectorAll(".row")) {
      const kind = of(this.entry(row).id);
      for (const one of ["right", "wrong"]) {
        row.classList.toggle(`marked-${one}`, kind === one);
        row.querySelector(`[data-mark="${one}"]`)?.setAttribute("aria-pressed", String(kind === one));
      }
    }
  }

  row(side, rank) {
    return this[side].children[rank - 1] ?? null;
  }

  find(words, side) {
    return [...this[side].children].find((row) => row.dataset.id === words) ?? null;
  }

  entry(row) {
    return this.answer[row.dataset.side][Number(row.dataset.rank) - 1];
  }

  /** Highlight the explained result in both columns. */
  select(id) {
    this.selected = id;
    const words = id === null ? null : idWords(id);
    for (const row of this.root.querySelectorAll(".row")) {
      const on = row.dataset.id === words;
      row.classList.toggle("selected", on);
      const result = row.querySelector(".result");
      if (on) result.setAttribute("aria-current", "true");
      else result.removeAttribute("aria-current");
    }
    let any = false;
    for (const [key, drawn] of this.groups) {
      for (const group of drawn) group.classList.toggle("selected", key === words);
      any ||= key === words;
    }
    this.root.classList.toggle("has-selected", any);
    this.lines.append(...(this.groups.get(words) ?? [])); // draw them on top
  }

  hover(row) {
    if (this.hovered === row?.dataset.id) return;
    this.hovered = row?.dataset.id;
    for (const one of this.root.querySelectorAll(".hot")) one.classList.remove("hot");
    if (row) {
      for (const one of this.root.querySelectorAll(".row"))
        one.classList.toggle("hot", one.dataset.id === this.hovered);
      for (const group of this.groups.get(this.hovered) ?? []) group.classList.add("hot");
    }
    this.root.classList.toggle("has-hot", Boolean(row));
  }

  /** Make one result reachable by Tab, with its two mark buttons; arrow keys reach the others. */
  rest(row) {
    if (!row) return;
    for (const one of this.root.querySelectorAll('[tabindex="0"]')) one.tabIndex = -1;
    for (const one of row.querySelectorAll("button")) one.tabIndex = 0;
  }

  focus(row) {
    if (!row) return;
    this.rest(row);
    row.querySelector(".result").focus();
    row.scrollIntoView({ block: "nearest" });
    this.pointed(this.entry(row));
  }

  /** Return the focus to a result, in its former column if it is still there. */
  back(id, side) {
    const row = this.find(id, side) ?? this.find(id, "after") ?? this.find(id, "before");
    (row ?? this.row("after", 1))?.querySelector(".result").focus({ preventScroll: true });
  }

  clicked(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    const mark = event.target.closest("[data-mark]");
    if (mark) this.marked(this.entry(row), mark.dataset.mark);
    else if (event.target.closest(".result")) this.opened(this.entry(row), event.detail === 0);
  }

  pressed(event) {
    const row = event.target.closest(".row");
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const { side, id } = row.dataset,
      rank = Number(row.dataset.rank);
    const other = side === "before" ? "after" : "before";
    const across = () => this.find(id, other) ?? this.row(other, Math.min(rank, this[other].children.length));
    const goes = {
      ArrowDown: () => this.row(side, rank + 1),
      ArrowUp: () => this.row(side, rank - 1),
      Home: () => this.row(side, 1),
      End: () => this.row(side, this[side].children.length),
      ArrowRight: () => (side === "before" ? across() : null),
      ArrowLeft: () => (side === "after" ? across() : null),
    };
    const marks = { r: "right", w: "wrong" };
    if (event.key in goes) this.focus(goes[event.key]());
    else if (event.key in marks && row.querySelector("[data-mark]")) this.marked(this.entry(row), marks[event.key]);
    else return;
    event.preventDefault();
  }
}
