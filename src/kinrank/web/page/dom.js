// Helpers that create DOM elements. Data becomes text or an attribute, never markup.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(node.dataset, value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Create an HTML element: `on...` are listeners, `data` is its dataset, `style` its inline styles. */
export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** Create an SVG element in the same way. */
export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** Create an icon from the symbols in index.html. */
export const icon = (name) =>
  svg("svg", { "aria-hidden": "true", focusable: "false" }, svg("use", { href: `#i-${name}` }));

/** Create a button with an icon, text, or both. */
export function button(words, onclick, { drawing, kind = "tool", label, ...more } = {}) {
  const inside = [drawing && icon(drawing), words && el("span", {}, words)];
  return el("button", { type: "button", class: kind, "aria-label": label, title: label, onclick, ...more }, inside);
}

export const byId = (id) => document.getElementById(id);

/** True if the user prefers reduced motion. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** True if side bar and explanation cover the page instead of standing next to the lists. */
export const narrow = matchMedia("(max-width: 1199px)");

/** Debounce a function: run it once calls have paused for the given number of milliseconds. */
export function paused(work, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

/** Return the URL of a card's picture, 0 for its file; an uploaded picture has only one size. */
export const sourceOf = (card, size) =>
  card.picture.startsWith("data:") ? card.picture : `${card.picture}?size=${size}`;

/** Create the picture of a card, or a placeholder with the start of its name; `words` is the alternative text. */
export function picture(card, size, words = "") {
  if (card.picture) {
    const image = el("img", {
      class: "picture",
      src: sourceOf(card, size),
      alt: words,
      loading: "lazy",
      decoding: "async",
      draggable: "false",
    });
    image.addEventListener("error", () => image.replaceWith(standIn(card, words)), { once: true });
    return image;
  }
  return standIn(card, words);
}

function standIn(card, words) {
  const more = words ? { role: "img", "aria-label": words } : { "aria-hidden": "true" };
  return el("span", { class: "picture stand-in", ...more }, initials(card));
}

/** Return the text of a placeholder: the last digits of a number, or the first letters of a name. */
export function initials(card) {
  const name = String(card.name ?? "?");
  return /^\d+$/.test(name) ? name.slice(-4) : name.replace(/^\W+/, "").slice(0, 3) || "·";
}

/** Create a small tile for an item: its picture, the start of its text, or its name. */
export function tile(card, size, words = "") {
  if (card.picture || !card.text) return picture(card, size, words);
  return el("span", { class: "picture text-tile", title: card.text }, String(card.text).slice(0, 160));
}
