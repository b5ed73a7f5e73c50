// Spinner with a message while a search takes long.

import { byId, el } from "./dom.js";
import { say } from "./say.js";

const SOON = 400,
  LATER = 2500; // milliseconds until the spinner and until the longer message

/** Show that a search runs, with the name of its method if it may have to be compiled. Returns a function that ends it. */
export function busy(method) {
  const node = byId("busy");
  const show = (words) => {
    node.replaceChildren(el("span", { class: "spinner", "aria-hidden": "true" }), el("span", {}, words));
    node.hidden = false;
  };
  const first = setTimeout(() => show("Searching …"), SOON);
  const second = setTimeout(() => {
    const words = method
      ? `Searching with ${method}. Its first search on this computer can take half a minute, because its code is compiled. Later ones are fast.`
      : "Still searching. The first search after the start takes longer than later ones.";
    show(words);
    say(words);
  }, LATER);
  return () => {
    clearTimeout(first);
    clearTimeout(second);
    node.hidden = true;
  };
}
