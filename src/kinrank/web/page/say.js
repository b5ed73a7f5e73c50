// Messages: announced to screen readers, or shown for some seconds.

import { byId } from "./dom.js";

const LEAST = 2500,
  PER_LETTER = 45; // milliseconds
let timer = 0;

/** Announce a message to screen readers without showing it. */
export const say = (words) => (byId("live").textContent = words);

/** Show a message for as long as it takes to read, and announce it. */
export function toast(words) {
  const node = byId("toast");
  node.textContent = words;
  node.hidden = false;
  say(words);
  clearTimeout(timer);
  timer = setTimeout(() => (node.hidden = true), LEAST + PER_LETTER * words.length);
}
