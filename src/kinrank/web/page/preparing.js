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
const AFTERWARDS = 5; // seconds from the last encoded item until the page opens
const LAST = ["connect", "finish"],
  FOLDER = ["open", "encode", ...LAST],
  TOYS = ["draw", "pictures", ...LAST];
const PLANS = { open: FOLDER, encode: FOLDER, draw: TOYS, pictures: TOYS, connect: LAST }; // by the first phase
const WORK = { open: 4, encode: 84, connect: 8, finish: 4, draw: 10, pictures: 30 }; // usual shares of the time
const CONNECTING = ["neighbours", "diffusion", "states", "steps"];
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
  byId("heading").textContent = title === "kinrank" ? "Getting ready" : `Getting ${title} ready`;
  byId("about").textContent = "The search opens here automatically. You can leave this page and come back later.";
  document.body.classList.remove("stopped");
  write("problem", "");
  const now = stages.find((one) => !one.over);
  if (now) working(now, stages, title);
}

/** Return the phase of a stage: part of the whole work; null for a stage that is not known here. */
function phaseOf(label) {
  if (/^(encoding|embedding)\b/.test(label)) return "encode";
  if (label === "opening the encoder" || label.startsWith("listing")) return "open";
  if (label.startsWith("opening")) return "finish";
  if (CONNECTING.includes(label)) return "connect";
  return label === "draw" || label === "pictures" ? label : null;
}

/** Describe the current work in plain words. */
function wordsOf({ label }, stages) {
  const encoding = stages.map((one) => one.label).find((one) => phaseOf(one) === "encode") ?? "";
  const things = encoding.endsWith("texts") ? "texts" : encoding ? "pictures" : "items";
  const words = {
    open: "Getting started",
    encode: things === "texts" ? "Reading the texts" : "Looking at the pictures",
    connect: `Connecting similar ${things}`,
    finish: "Opening the page",
    draw: "Drawing toys",
    pictures: "Saving their pictures",
  };
  return words[phaseOf(label)] ?? label;
}

/** Return how much of all work is done, from 0 to 1; null if that is unknown. */
function shareOf(now, stages) {
  const first = stages.map((one) => phaseOf(one.label)).find(Boolean);
  const phase = phaseOf(now.label);
  const plan = PLANS[first] ?? [];
  if (!plan.includes(phase)) return null;
  const counted = now.counted && now.total > 0 ? Math.min(1, now.done / now.total) : 0;
  const step = CONNECTING.indexOf(now.label);
  const part = phase !== "connect" ? counted : (step + (step === 0 ? counted : 0)) / CONNECTING.length;
  const sum = (phases) => phases.reduce((total, one) => total + WORK[one], 0);
  return (sum(plan.slice(0, plan.indexOf(phase))) + WORK[phase] * part) / sum(plan);
}

/** Show one bar for all work; it is indeterminate if the total is unknown. */
function working(now, stages, title) {
  const part = shareOf(now, stages);
  const share = part === null ? null : Math.floor(100 * part);
  const label = wordsOf(now, stages);
  const isCounted = now.counted && now.total >= MANY;
  write("label", label);
  write("share", share === null ? "" : `${share} %`);
  write("count", isCounted ? `${whole(now.done)} of ${whole(now.total)}` : "");
  write("left", now.left === null || part === null ? "" : left(now.left + AFTERWARDS));
  write("stage", `${now.label}: ${isCounted ? `${whole(now.done)}${speed(now.rate)}` : formatTime(now.seconds)}`);
  const bar = byId("bar");
  bar.classList.toggle("unknown", part === null);
  bar.firstElementChild.style.setProperty("--part", part ?? 0);
  if (share === null) bar.removeAttribute("aria-valuenow");
  else bar.setAttribute("aria-valuenow", String(share));
  document.title = `${share === null ? "…" : `${share} %`} · ${title === "kinrank" ? "" : `${title} · `}kinrank`;
  const step = share === null ? 0 : SPOKEN * Math.floor(share / SPOKEN);
  const words = step ? `${label}: ${step} percent.` : `${label}.`;
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
