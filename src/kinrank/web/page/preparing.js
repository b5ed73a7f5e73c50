// Wait page: shows the progress while the gallery is prepared, then opens the search page.

import { ask } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { whole } from "./numbers.js";
import { say } from "./say.js";
import { askToken } from "./token.js";

const PAUSE = 1000,
  LATER = 3000; // milliseconds between two requests, while the service works and when it does not answer
const MANY = 10; // smaller totals are parts of a task, not items worth counting
const SPOKEN = 25; // percent between two announcements for screen readers
let heard = ""; // the last announcement, to avoid repeating it

async function look() {
  let found;
  try {
    found = await ask("view/progress");
  } catch (error) {
    if (error.status === 401) return askToken(look);
    if (error.status !== 404) {
      showStop(error.status ? error.message : `${error.message} This page tries again automatically.`);
      return setTimeout(look, LATER);
    }
    found = { state: "ready" }; // a service without this route has nothing to prepare
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
    byId("about").textContent = "Fix this and restart the service; this page then continues.";
    document.title = "Preparation failed · kinrank";
    return showStop(`${problem[0].toUpperCase()}${problem.slice(1)}${/[.!?]$/.test(problem) ? "" : "."}`);
  }
  byId("heading").textContent = "Preparing the gallery";
  byId("about").textContent = "The search opens here automatically when the gallery is ready.";
  document.body.classList.remove("stopped");
  write("problem", "");
  const now = stages.find((one) => !one.over);
  if (now) working(now, title);
}

/** Show the current stage; a stage without a known total gets an indeterminate bar. */
function working(now, title) {
  const part = now.counted && now.total > 0 ? Math.min(1, now.done / now.total) : null;
  const share = part === null ? null : Math.floor(100 * part);
  write("label", now.label);
  write("share", share === null ? "" : `${share} %`);
  write("count", part === null ? formatTime(now.seconds) : `${whole(now.done)} of ${whole(now.total)}${speed(now.rate)}`);
  write("left", now.left === null || part === null || part === 1 ? "" : left(now.left));
  const bar = byId("bar");
  bar.classList.toggle("fresh", bar.dataset.label !== now.label); // no backward animation when a new stage starts
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
      [one.counted && one.total >= MANY ? whole(one.total) : "", formatTime(one.seconds)].filter(Boolean).join(" · "),
    ),
  );

/** Show why the preparation stopped. */
function showStop(words) {
  document.body.classList.add("stopped");
  write("problem", words);
  write("left", "");
}

/** Write only changed text, because screen readers would repeat the rest. */
function write(id, words) {
  const node = byId(id);
  if (node.textContent !== words) node.textContent = words;
}

function formatTime(seconds) {
  if (seconds < 1) return "<1 s";
  const all = Math.round(seconds);
  if (all < 60) return `${all} s`;
  if (all < 3600) return `${Math.floor(all / 60)} min ${all % 60} s`;
  return `${Math.floor(all / 3600)} h ${Math.floor((all % 3600) / 60)} min`;
}

/** Format the remaining time, rounded because it is an estimate. */
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
