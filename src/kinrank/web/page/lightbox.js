// One picture, as large as the window: arrow keys go to the next one, Space closes.

import { byId, button, el, sourceOf } from "./dom.js";
import { nameOf } from "./names.js";
import { say } from "./say.js";

const LARGE = 1024,
  ORIGINAL = 0; // sizes of pictures
const ENLARGED = 3; // at most, for small pictures

export class Lightbox {
  /** Callbacks: asked(entry), explained(entry), marked(entry, kind), closed(entry); look(entry) as for the grid. */
  constructor(hooks) {
    Object.assign(this, { hooks, entries: [], place: 0, full: false });
    this.root = byId("lightbox");
    this.root.addEventListener("keydown", (event) => this.pressed(event));
    this.root.addEventListener("close", () => this.entry && this.hooks.closed(this.entry));
    this.root.addEventListener("click", (event) => {
      if (event.target === this.root || (event.target.matches(".stage") && !this.full)) this.root.close();
    });
  }

  get entry() {
    return this.entries[this.place];
  }

  open(entries, entry) {
    const others = entries.filter((one) => one.picture);
    const place = others.findIndex((one) => one.id === entry.id);
    [this.entries, this.place] = place < 0 ? [[entry], 0] : [others, place];
    this.full = false;
    this.build();
    this.root.showModal();
    this.draw();
    this.stage.focus();
  }

  build() {
    const tool = (drawing, words, does, more = {}) => button(words, does, { drawing, kind: "tool", label: words, ...more });
    const then = (does) => () => {
      const { entry } = this;
      this.entries = []; // the focus goes elsewhere
      this.root.close();
      this.hooks[does](entry);
    };
    this.stage = el("div", { class: "stage", tabindex: "0", role: "group", "aria-label": "Picture" });
    this.title = el("h2", { id: "lightbox-title" });
    this.count = el("span", { class: "soft" });
    this.file = el("a", { class: "tool", target: "_blank", rel: "noopener" }, "Open file");
    this.sized = tool("zoom", "Original size", () => this.resize(!this.full), { id: "original" });
    this.marks = ["right", "wrong"].map((kind) =>
      tool(kind === "right" ? "up" : "down", kind === "right" ? "Right" : "Wrong", () => this.mark(kind), {
        kind: `tool mark-wide ${kind}`,
        label: `Mark as ${kind}`,
      }),
    );
    this.root.replaceChildren(
      el(
        "div",
        { class: "lightbox-head" },
        el("div", { class: "lightbox-name" }, this.title, this.count),
        tool("close", "", () => this.root.close(), { kind: "tool icon", label: "Close" }),
      ),
      this.stage,
      el(
        "div",
        { class: "lightbox-tools" },
        tool("back", "", () => this.go(-1), { kind: "tool icon", label: "Previous picture", id: "previous" }),
        tool("next", "", () => this.go(1), { kind: "tool icon", label: "Next picture", id: "next" }),
        tool("seek", "Search with it", then("asked"), { id: "lightbox-ask" }),
        tool("why", "Why is it here?", then("explained"), { id: "lightbox-why" }),
        this.marks,
        this.sized,
        this.file,
      ),
    );
  }

  draw() {
    const { entry } = this;
    const image = el("img", {
      src: sourceOf(entry, this.full ? ORIGINAL : LARGE),
      alt: String(entry.name),
      draggable: "false",
    });
    image.addEventListener("error", () =>
      image.replaceWith(
        el("p", { class: "soft" }, "This browser cannot show this file. ", this.full ? "Open it in another program." : ""),
      ),
    );
    image.addEventListener("load", () => {
      if (this.full) return;
      image.style.maxWidth = `${ENLARGED * image.naturalWidth}px`;
      image.style.maxHeight = `${ENLARGED * image.naturalHeight}px`;
    });
    this.stage.classList.toggle("full", this.full);
    this.stage.replaceChildren(image);
    this.title.replaceChildren(nameOf(entry.name));
    this.count.textContent = `${this.place + 1} of ${this.entries.length}`;
    this.file.href = sourceOf(entry, ORIGINAL);
    this.sized.setAttribute("aria-pressed", String(this.full));
    this.showMarks();
    for (const step of [1, -1]) {
      const near = this.entries[this.place + step];
      if (near) new Image().src = sourceOf(near, LARGE);
    }
  }

  showMarks() {
    if (!this.root.open) return;
    const { markable, mark } = this.hooks.look(this.entry);
    for (const [place, kind] of ["right", "wrong"].entries()) {
      this.marks[place].setAttribute("aria-pressed", String(mark === kind));
      this.marks[place].hidden = !markable;
    }
  }

  mark(kind) {
    if (this.hooks.look(this.entry).markable) this.hooks.marked(this.entry, kind);
    this.showMarks();
  }

  resize(full) {
    this.full = full;
    this.draw();
  }

  go(step) {
    this.place = (this.place + step + this.entries.length) % this.entries.length;
    this.draw();
    say(`${this.entry.name}, ${this.place + 1} of ${this.entries.length}`);
  }

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const onButton = event.target.closest("button, a");
    const does = {
      ArrowRight: () => this.go(1),
      ArrowLeft: () => this.go(-1),
      " ": () => !onButton && this.root.close(),
      o: () => this.resize(!this.full),
      r: () => this.mark("right"),
      w: () => this.mark("wrong"),
    }[event.key];
    if (!does || (event.key === " " && onButton)) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  }
}
