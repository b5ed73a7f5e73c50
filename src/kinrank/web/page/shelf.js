// The results as a large grid: items marked right first, near-duplicates stacked on the first of them.

import { button, el, icon, picture, sourceOf } from "./dom.js";
import { verdict } from "./lines.js";
import { nameOf } from "./names.js";
import { plural } from "./numbers.js";
import { idWords } from "./state.js";

const WIDTHS = [192, 384, 1024]; // of thumbnails, in pixels
const SIGNS = { right: "✓", wrong: "✕" };
const SLIDER = { min: 110, max: 400, usual: 210 }; // pixels of a picture
const KEPT = "kinrank-size";

function storedSize() {
  try {
    return Number(localStorage.getItem(KEPT)) || SLIDER.usual;
  } catch {
    return SLIDER.usual; // storage can be blocked
  }
}

/** Return the entries in the order of the grid: the items marked right, then the results. */
const entriesOf = (answer) => [
  ...answer.marked.positives.map((card) => ({ ...card, rank: null, copy_of: null, right: null })),
  ...answer.after,
];

export class Shelf {
  /** Callbacks: opened(entry) for a chosen result, enlarged, asked and explained(entry), marked(entry, kind). */
  constructor(hooks) {
    Object.assign(this, { hooks, entries: [], selected: null, spread: new Set() });
    this.grid = el("ol", { class: "shelf after", "aria-label": "Results" });
    this.stacks = el("p", { class: "soft stacks" });
    this.root = el("div", { class: "shelf-place" }, this.grid, this.stacks);
    this.size = storedSize();
    this.slider = el("input", {
      type: "range",
      id: "size",
      min: SLIDER.min,
      max: SLIDER.max,
      step: 10,
      value: this.size,
      "aria-label": "Size of the pictures",
      oninput: () => {
        this.resize(Number(this.slider.value));
        try {
          localStorage.setItem(KEPT, this.slider.value);
        } catch {
          // see above
        }
      },
    });
    this.resize(this.size);
    this.grid.addEventListener("click", (event) => this.clicked(event));
    this.grid.addEventListener("keydown", (event) => this.pressed(event));
    this.grid.addEventListener("focusin", (event) => this.rest(event.target.closest(".shot")));
  }

  resize(size) {
    this.size = size;
    this.grid.style.setProperty("--size", `${size}px`);
    this.slider.setAttribute("aria-valuetext", `${size} pixels`);
    for (const image of this.grid.querySelectorAll("img[srcset]")) image.sizes = `${size}px`;
  }

  /** Show an answer. `look(entry)` says whether it can be marked, its mark, and the shape of items. */
  show(answer, look, fresh) {
    if (fresh) this.spread.clear();
    this.entries = entriesOf(answer);
    this.copies = new Map(); // rank -> number of near-duplicates of it
    for (const { copy_of: first } of this.entries) if (first) this.copies.set(first, 1 + (this.copies.get(first) ?? 0));
    this.grid.replaceChildren(...this.entries.map((entry, place) => this.shot(entry, place, look(entry))));
    this.stack();
    this.rest(this.grid.firstElementChild);
    this.select(this.selected);
  }

  shot(entry, place, { markable, mark, shape }) {
    const name = String(entry.name);
    const truth = verdict(entry);
    const known = { right: ", right", wrong: ", wrong", open: "" }[truth];
    const where = entry.rank ? `Rank ${entry.rank}${known}: ` : "Marked right by you: ";
    const thumb = el("span", { class: "thumb" }, shape === "pictures" ? this.photo(entry) : null);
    if (SIGNS[truth]) thumb.append(el("i", { class: "sign", "aria-hidden": "true" }, SIGNS[truth]));
    const body = shape === "texts" && entry.text ? el("span", { class: "text" }, entry.text) : null;
    const result = el(
      "button",
      { type: "button", class: "result", tabindex: "-1", title: name },
      thumb,
      el("span", { class: "badge", "aria-hidden": "true" }, icon("up"), el("b", {}, "right")),
      el("span", { class: "caption" }, el("span", { class: "unseen" }, where), body, nameOf(name)),
    );
    const one = (drawing, label, data, more = {}) =>
      button("", null, { drawing, kind: "mark", label, tabindex: "-1", data, ...more });
    const marks = ["right", "wrong"].map((kind) =>
      one(kind === "right" ? "up" : "down", `Mark ${name} as ${kind}`, { mark: kind }, {
        kind: `mark ${kind}`,
        "aria-pressed": String(mark === kind),
      }),
    );
    const count = this.copies.get(entry.rank);
    const stack =
      count &&
      button(`+${count}`, () => this.toggle(entry.rank), {
        kind: "stack",
        label: `${plural(count, "near-duplicate")} of ${name}`,
        tabindex: "-1",
      });
    return el(
      "li",
      {
        class: `shot ${truth}${mark ? ` marked-${mark}` : ""}${entry.rank ? "" : " pinned"}`,
        data: { id: idWords(entry.id), place, rank: entry.rank ?? "", copy: entry.copy_of ?? "" },
      },
      result,
      stack,
      el(
        "span",
        { class: "marks" },
        one("seek", `Search with ${name}`, { does: "asked" }),
        one("why", `Why is ${name} here?`, { does: "explained" }),
        markable ? marks : null,
      ),
    );
  }

  photo(entry) {
    const image = picture(entry, 384);
    if (image.tagName !== "IMG") return image;
    image.srcset = WIDTHS.map((width) => `${sourceOf(entry, width)} ${width}w`).join(", ");
    image.sizes = `${this.size}px`;
    return image;
  }

  toggle(rank) {
    if (this.spread.has(rank)) this.spread.delete(rank);
    else this.spread.add(rank);
    this.stack();
  }

  /** Hide the near-duplicates of stacks that are closed, and say how many there are. */
  stack() {
    let hidden = 0;
    for (const shot of this.grid.children) {
      const first = Number(shot.dataset.copy);
      shot.hidden = first > 0 && !this.spread.has(first);
      shot.classList.toggle("copy", first > 0);
      hidden += shot.hidden;
      const stack = shot.querySelector(".stack");
      stack?.setAttribute("aria-expanded", String(this.spread.has(Number(shot.dataset.rank))));
    }
    const all = () => {
      if (hidden) this.spread = new Set(this.copies.keys());
      else this.spread.clear();
      this.stack();
    };
    const words = hidden ? `${plural(hidden, "near-duplicate is", "near-duplicates are")} stacked. ` : "";
    this.stacks.hidden = this.copies.size === 0;
    this.stacks.replaceChildren(words, button(hidden ? "Show all" : "Stack near-duplicates", all, { kind: "plain", id: "stacks" }));
  }

  find(words) {
    return [...this.grid.children].find((shot) => shot.dataset.id === words) ?? null;
  }

  entry(shot) {
    return this.entries[Number(shot.dataset.place)];
  }

  /** Return the entries that are visible, for the lightbox. */
  visible() {
    return [...this.grid.children].filter((shot) => !shot.hidden).map((shot) => this.entry(shot));
  }

  /** Update the marks in place, so that keyboard focus stays where it is. */
  mark(of) {
    for (const shot of this.grid.children) {
      const kind = of(this.entry(shot).id);
      for (const one of ["right", "wrong"]) {
        shot.classList.toggle(`marked-${one}`, kind === one);
        shot.querySelector(`[data-mark="${one}"]`)?.setAttribute("aria-pressed", String(kind === one));
      }
    }
  }

  /** Highlight the explained result. */
  select(id) {
    this.selected = id;
    const words = id === null ? null : idWords(id);
    for (const shot of this.grid.children) {
      shot.classList.toggle("selected", shot.dataset.id === words);
      const result = shot.querySelector(".result");
      if (shot.dataset.id === words) result.setAttribute("aria-current", "true");
      else result.removeAttribute("aria-current");
    }
  }

  /** Make one result reachable by Tab, with its buttons; arrow keys reach the others. */
  rest(shot) {
    if (!shot) return;
    for (const one of this.grid.querySelectorAll('[tabindex="0"]')) one.tabIndex = -1;
    for (const one of shot.querySelectorAll("button")) one.tabIndex = 0;
  }

  /** Focus a result by its id; the first one if it is gone. */
  back(words) {
    const shot = this.find(words) ?? this.grid.firstElementChild;
    if (!shot) return;
    shot.hidden = false;
    shot.querySelector(".result").focus({ preventScroll: true });
    shot.scrollIntoView({ block: "nearest" });
  }

  clicked(event) {
    const shot = event.target.closest(".shot");
    const does = event.target.closest("[data-does]")?.dataset.does;
    const mark = event.target.closest("[data-mark]")?.dataset.mark;
    if (!shot) return;
    if (mark) this.hooks.marked(this.entry(shot), mark);
    else if (does) this.hooks[does](this.entry(shot));
    else if (event.target.closest(".result")) this.hooks.opened(this.entry(shot));
  }

  pressed(event) {
    const shot = event.target.closest(".shot");
    if (!shot || event.ctrlKey || event.metaKey || event.altKey) return;
    const shots = [...this.grid.children].filter((one) => !one.hidden);
    const columns = getComputedStyle(this.grid).gridTemplateColumns.split(" ").length;
    const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -Infinity, End: Infinity };
    const marks = { r: "right", w: "wrong" };
    if (event.key in moves) {
      const next = shots[Math.max(0, Math.min(shots.length - 1, shots.indexOf(shot) + moves[event.key]))];
      next.querySelector(".result").focus();
      next.scrollIntoView({ block: "nearest" });
    } else if (event.key in marks && shot.querySelector("[data-mark]")) this.hooks.marked(this.entry(shot), marks[event.key]);
    else if (event.key === "e") this.hooks.explained(this.entry(shot));
    else if (event.key === " " && event.target.matches(".result")) this.hooks.enlarged(this.entry(shot));
    else if (event.key === "s") this.hooks.asked(this.entry(shot));
    else return;
    event.preventDefault();
  }
}
