// Sheets for small screens: side bar and explanation cover the page, one at a time, and return the focus.

import { byId, narrow } from "./dom.js";

const parts = { rail: byId("rail"), why: byId("why") };
let back = null; // element that had the focus before the sheet opened

/** Show a sheet by name, or none. On wide screens both stand next to the lists and cover nothing. */
export function sheet(name) {
  const covered = narrow.matches && name !== null;
  for (const [key, node] of Object.entries(parts)) {
    node.classList.toggle("open", covered && key === name);
    if (covered && key === name) node.setAttribute("role", "dialog");
    else node.removeAttribute("role");
    if (covered && key === name) node.setAttribute("aria-modal", "true");
    else node.removeAttribute("aria-modal");
  }
  for (const node of [document.querySelector(".top"), byId("lists"), ...Object.values(parts)]) {
    node.inert = covered && node !== parts[name];
  }
  document.body.classList.toggle("covered", covered);
}

export const openSheet = () => Object.keys(parts).find((key) => parts[key].classList.contains("open")) ?? null;

/** Show a tab of the side bar, as a sheet on small screens, and focus it. */
export function openRail(tab = "query") {
  back = document.activeElement;
  if (narrow.matches) sheet("rail");
  choose(byId(`tab-${tab}`), tab === "settings");
  if (tab === "query") (byId("describe") ?? byId("words"))?.focus();
}

export function closeRail() {
  if (openSheet() !== "rail") return;
  sheet(null);
  if (back?.isConnected) back.focus();
  back = null;
}

const both = [byId("tab-query"), byId("tab-settings")];

function choose(chosen, focus) {
  for (const tab of both) {
    const on = tab === chosen;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !on;
  }
  if (focus) chosen.focus();
}

/** Set up the two tabs of the side bar, with arrow keys. */
export function tabs() {
  for (const tab of both) {
    tab.addEventListener("click", () => choose(tab, false));
    tab.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") choose(both[1 - both.indexOf(tab)], true);
    });
  }
}
