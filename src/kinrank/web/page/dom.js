// Words about elements -> elements. Data only ever becomes text or an attribute, never markup.

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

/** An HTML element: `on...` are listeners, `data` its dataset, `style` properties set by script. */
export const el = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);

/** An SVG element, likewise. */
export const svg = (tag, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, tag), attributes, children);

/** One of the drawings of index.html. */
export const icon = (name) =>
  svg("svg", { "aria-hidden": "true", focusable: "false" }, svg("use", { href: `#i-${name}` }));

/** A button with a drawing, words, or both. */
export function button(words, onclick, { drawing, kind = "tool", label, ...more } = {}) {
  const inside = [drawing && icon(drawing), words && el("span", {}, words)];
  return el("button", { type: "button", class: kind, "aria-label": label, title: label, onclick, ...more }, inside);
}

export const byId = (id) => document.getElementById(id);

/** Whether the reader wants things to stand still. */
export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Whether the rail and the explanation cover the page instead of standing beside the lists. */
export const narrow = matchMedia("(max-width: 1199px)");

/** The function, run once calls have paused for so many milliseconds. */
export function paused(work, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

/** Where the picture of a card is; one that was given to this page has one size only. */
export const sourceOf = (card, size) =>
  card.picture.startsWith("blob:") ? card.picture : `${card.picture}?size=${size}`;

/** The picture of a card, or a stand-in with the start of its name; `words` for those who do not see it. */
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

/** What stands in place of a picture: the end of a number, the first letters of a name. */
export function initials(card) {
  const name = String(card.name ?? "?");
  return /^\d+$/.test(name) ? name.slice(-4) : name.replace(/^\W+/, "").slice(0, 3) || "·";
}

/** What an item looks like in little room: its picture, the start of its text, or its name. */
export function tile(card, size, words = "") {
  if (card.picture || !card.text) return picture(card, size, words);
  return el("span", { class: "picture text-tile", title: card.text }, String(card.text).slice(0, 160));
}
