// What the service says of its preparation -> a bar, numbers, and what is done; the page itself as soon as it is there.

import { ask } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { whole } from "./numbers.js";
import { say } from "./say.js";
import { askToken } from "./token.js";

const PAUSE = 1000,
  LATER = 3000; // milliseconds between two questions, while it works and when nobody answers
const MANY = 10; // fewer are parts of some work, and not things that people count
const SPOKEN = 25; // percent after which it is said how far it is
let heard = ""; // what was said last, so that nothing is said twice

async function look() {
  let found;
  try {
    found = await ask("view/progress");
  } catch (error) {
    if (error.status === 401) return askToken(look);
    if (error.status !== 404) {
      stopped(error.status ? error.message : `${error.message} This page looks again by itself.`);
      return setTimeout(look, LATER);
    }
    found = { state: "ready" }; // a service that has no such address prepares nothing
  }
  if (found.state === "ready") return location.reload();
  show(found);
  setTimeout(look, found.state === "failed" ? LATER : PAUSE);
}

function show({ title, problem, stages }) {
  byId("title").textContent = title === "kinrank" ? "" : title;
  const over = stages.filter((one) => one.over);
  byId("stages").replaceChildren(...over.reverse().map(done));
  if (problem) {
    byId("heading").textContent = "The gallery could not be prepared";
    byId("about").textContent = "Start the service again when this is mended; this page then goes on.";
    document.title = "It could not be prepared · kinrank";
    return stopped(`${problem[0].toUpperCase()}${problem.slice(1)}${/[.!?]$/.test(problem) ? "" : "."}`);
  }
  byId("heading").textContent = "Preparing the gallery";
  byId("about").textContent = "Search opens here by itself as soon as all is done.";
  document.body.classList.remove("stopped");
  write("problem", "");
  const now = stages.find((one) => !one.over);
  if (now) working(now, title);
}

/** What is being done; what nobody has counted has a bar that only moves. */
function working(now, title) {
  const part = now.counted && now.total > 0 ? Math.min(1, now.done / now.total) : null;
  const share = part === null ? null : Math.floor(100 * part);
  write("label", now.label);
  write("share", share === null ? "" : `${share} %`);
  write("count", part === null ? spent(now.seconds) : `${whole(now.done)} of ${whole(now.total)}${speed(now.rate)}`);
  write("left", now.left === null || part === null || part === 1 ? "" : left(now.left));
  const bar = byId("bar");
  bar.classList.toggle("fresh", bar.dataset.label !== now.label); // a new stage does not run backwards
  bar.dataset.label = now.label;
  bar.classList.toggle("unknown", part === null);
  bar.firstElementChild.style.setProperty("--part", part ?? 0);
  if (share === null) bar.removeAttribute("aria-valuenow");
  else bar.setAttribute("aria-valuenow", String(share));
  document.title = `${share === null ? "…" : `${share} %`} · ${title === "kinrank" ? "" : `${title} · `}kinrank`;
  const step = share === null ? 0 : SPOKEN * Math.floor(share / SPOKEN);
  const words = step ? `${now.label}: ${step} percent.` : `${now.label}.`;
  if (words !== heard) say((heard = words));
}

const done = (one) =>
  el(
    "li",
    {},
    icon("done"),
    el("b", {}, one.label),
    el(
      "span",
      {},
      [one.counted && one.total >= MANY ? whole(one.total) : "", spent(one.seconds)].filter(Boolean).join(" · "),
    ),
  );

/** There is nothing to wait for: say why. */
function stopped(words) {
  document.body.classList.add("stopped");
  write("problem", words);
  write("left", "");
}

/** Only what changes is written: screen readers would read it again. */
function write(id, words) {
  const node = byId(id);
  if (node.textContent !== words) node.textContent = words;
}

function spent(seconds) {
  if (seconds < 1) return "<1 s";
  const all = Math.round(seconds);
  if (all < 60) return `${all} s`;
  if (all < 3600) return `${Math.floor(all / 60)} min ${all % 60} s`;
  return `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} min`;
}

/** About how long: nobody knows it to the second. */
function left(seconds) {
  const minutes = Math.round(seconds / 60);
  if (seconds < 10) return "a few seconds left";
  if (seconds < 50) return `about ${10 * Math.ceil(seconds / 10)} seconds left`;
  if (minutes <= 1) return "about a minute left";
  if (minutes < 60) return `about ${minutes} minutes left`;
  const hours = Math.floor(minutes / 60),
    rest = 10 * Math.round((minutes % 60) / 10);
  if (rest === 0 || rest === 60) return `about ${hours + rest / 60} ${hours + rest / 60 === 1 ? "hour" : "hours"} left`;
  return `about ${hours} h ${rest} min left`;
}

function speed(rate) {
  if (rate === null) return "";
  if (rate >= 1) return ` · ${rate >= 10 ? whole(Math.round(rate)) : rate.toFixed(1)} a second`;
  return ` · ${60 * rate >= 10 ? Math.round(60 * rate) : (60 * rate).toFixed(1)} a minute`;
}

look();
