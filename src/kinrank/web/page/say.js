// Words -> heard by those who listen, or shown for some seconds to all.

import { byId } from "./dom.js";

const LEAST = 2500,
  PER_LETTER = 45; // milliseconds
let timer = 0;

/** Spoken by screen readers, not shown. */
export const say = (words) => (byId("live").textContent = words);

/** Shown for as long as it takes to read, and spoken. */
export function toast(words) {
  const node = byId("toast");
  node.textContent = words;
  node.hidden = false;
  say(words);
  clearTimeout(timer);
  timer = setTimeout(() => (node.hidden = true), LEAST + PER_LETTER * words.length);
}
