// The page: reads its state from the URL, requests the data, shows it, and writes the state back to the URL.

import { ask, latest } from "./api.js";
import { busy } from "./busy.js";
import { Columns } from "./columns.js";
import { Controls, levelChoice, usualLevel } from "./controls.js";
import { button, byId, el, narrow, paused } from "./dom.js";
import { keep, restored } from "./kept.js";
import { Lightbox } from "./lightbox.js";
import { Marks, whyNot } from "./marks.js";
import { entitle, hint, LOST, nothingFound, problemBox, shapeOf, thingOf, welcomeBox } from "./messages.js";
import { News } from "./news.js";
import { plural } from "./numbers.js";
import { picker } from "./picker.js";
import { say, toast } from "./say.js";
import { copyLink, copyPython, offer } from "./share.js";
import { closeRail, openSheet as sheetOpen, openRail, sheet, tabs } from "./sheets.js";
import { Shelf } from "./shelf.js";
import { idWords, K, question, remember, same, stateOf, tidy } from "./state.js";
import { band, factsOf, heads, lead, named, spoken } from "./summary.js";
import { askToken } from "./token.js";
import { encoded } from "./uploads.js";
import { Why } from "./why.js";

let start = null; // data about the service from /view/start
let state = stateOf(location.search, history.state); // state from the URL
let answer = null,
  shownQuestion = null, // the current answer and its question
  drawnView = null;
let explained = null; // the question of the open explanation
let pick = null,
  controls = null,
  news = null; // the two tabs of the side bar, and the announcement of new items
let returnTo = null; // the result that had the focus before its explanation opened
const lists = byId("lists");

const rank = latest(async (signal, words) => ask("view/rank", await encoded(words, start, signal), signal));
const chain = latest(async (signal, words) => ask("view/chain", await encoded(words, start, signal), signal));
const rankSoon = paused(() => search(), 130);

const NO_MARKS = { right: [], wrong: [], saved: null };
const searchWith = (card) => go({ query: { item: card.id }, ...NO_MARKS, open: null }, true);
const columns = new Columns({
  opened: (entry, byKeys) => open(entry, { focus: byKeys, push: true }),
  pointed: (entry) => state.open !== null && !narrow.matches && followSoon(entry),
  marked: (entry, kind) => marks.toggle(entry, kind),
});
const shelf = new Shelf({
  opened: (entry) => {
    const explains = state.open !== null && !narrow.matches; // the explanation is open and follows
    if (explains || !entry.picture) open(entry, { push: true });
    else enlarge(entry);
  },
  enlarged: (entry) => (entry.picture ? enlarge(entry) : open(entry, { push: true })),
  asked: searchWith,
  explained: (entry) => open(entry, { focus: true, push: true }),
  marked: (entry, kind) => marks.toggle(entry, kind),
});
const lightbox = new Lightbox({
  asked: searchWith,
  explained: (entry) => open(entry, { focus: true, push: true }),
  marked: (entry, kind) => marks.toggle(entry, kind),
  closed: (entry) => !byId("why").contains(document.activeElement) && focusResult(idWords(entry.id)),
  look,
});
const followSoon = paused((entry) => open(entry, { push: false }), 140);
const marks = new Marks({
  again: (right, wrong) => go({ right, wrong, saved: right.length + wrong.length ? state.saved : null }, true),
  changed: () => {
    marks.draw();
    showMarks();
    saveMarks();
    say(
      `${plural(marks.list("right").length, "item")} marked right, ${plural(marks.list("wrong").length, "item")} wrong.`,
    );
  },
});
const why = new Why(byId("why"), {
  closed: close,
  open: (card) => open(card, { push: true }),
  ask: searchWith,
  mark: (card, kind) => marks.toggle(card, kind),
  enlarge,
});
const views = viewChoice();

/** Change the state. `push` adds a history entry; sliders replace the current one. */
function go(change, push = false) {
  state = { ...state, ...(typeof change === "function" ? change(state) : change) };
  remember(state, push);
  refresh(push);
}

/** Show the state, and request only what has changed. */
function refresh(now = true) {
  controls.show(state);
  pick.shows(state.query);
  marks.apply(state.right, state.wrong);
  if (!state.query) return welcome();
  if (state.query.lost) return problem(LOST, null);
  if (!same(question(state), shownQuestion)) return now ? search() : rankSoon();
  const current = named(answer, state.query);
  if (current !== answer || drawnView !== state.view) {
    answer = current;
    draw(false);
  }
  explain();
}

async function search() {
  const words = question(state);
  const fresh = !answer || !same(words.query, shownQuestion?.query);
  const asked = state.query;
  lists.setAttribute("aria-busy", "true");
  const ready = busy(state.method ?? (Object.keys(state.parameters).length ? start.prepared.method : null));
  try {
    const found = await rank({ ...words, level: state.level ?? usualLevel(start) });
    if (!found) return;
    answer = named(found, asked);
    shownQuestion = words;
    explained = null;
    marks.know([...found.before, ...found.after, ...found.marked.positives, ...found.marked.negatives]);
    draw(fresh);
    controls.tell(factsOf(answer));
    say(spoken(answer));
    explain();
  } catch (error) {
    failed(error, search);
  } finally {
    ready();
    lists.removeAttribute("aria-busy");
  }
}

/** The radio buttons of the two views, with the size of the pictures. */
function viewChoice() {
  const radio = (value, text) =>
    el(
      "label",
      {},
      el("input", { type: "radio", name: "view", value, id: `view-${value}`, onchange: () => go({ view: value }, true) }),
      el("span", {}, text),
    );
  const root = el(
    "div",
    { class: "views" },
    el("label", { class: "size", title: "Size of the pictures" }, shelf.slider),
    el(
      "div",
      { class: "segments small", role: "radiogroup", "aria-label": "View" },
      radio("results", "Results"),
      radio("compare", "Before and after"),
    ),
  );
  root.show = (view, sizes) => {
    root.querySelector(`[value="${view}"]`).checked = true;
    root.querySelector(".size").hidden = !sizes;
  };
  return root;
}

function draw(fresh) {
  const shape = shapeOf(start);
  const found = answer.after.length || answer.before.length;
  const active = lists.contains(document.activeElement) ? document.activeElement : null;
  const held = active?.closest(".row, .shot")?.dataset;
  const example = start.example && same(state.query, start.example.query) ? start.example.item : undefined;
  const top = band(answer, { change: openRail, level: levelChoice(start, state, go), views });
  const first = lead(answer, thingOf(start), example, {
    compare: () => go({ view: "compare" }, true),
    explain: (entry) => open(entry, { focus: true, push: true }),
  });
  const results = state.view === "compare" ? [heads(answer), columns.root] : [first, shelf.root, more()];
  drawnView = state.view;
  views.show(state.view, state.view !== "compare" && shape === "pictures");
  lists.replaceChildren(
    top,
    news.root,
    marks.root,
    ...(found ? results : [nothingFound()]),
    hint(state.view, shape),
  );
  redraw(fresh);
  if (fresh) (narrow.matches ? document.scrollingElement : lists).scrollTop = 0;
  if (held) focusResult(fresh ? null : held.id, held.side);
  else if (active && active !== lists) byId(active.id || `view-${state.view}`)?.focus({ preventScroll: true });
}

function enlarge(entry) {
  lightbox.open(state.view === "compare" ? answer.after : shelf.visible(), entry);
}

/** Focus a result of the current view; the first one if it is not there. */
function focusResult(id, side) {
  if (state.view === "compare") columns.back(id, side);
  else shelf.back(id);
}

const more = () =>
  el(
    "p",
    { class: "more" },
    answer.after.length < state.k || state.k >= start.limits.k
      ? null
      : button("Show more", () => go({ k: Math.min(state.k + K, start.limits.k) }), { kind: "tool", id: "more" }),
  );

function look(entry) {
  return { markable: !whyNot(start, state), mark: marks.of(entry.id), shape: shapeOf(start) };
}

function redraw(fresh = false) {
  marks.draw(whyNot(start, state));
  if (!answer) return;
  for (const root of [columns.root, shelf.root]) root.dataset.shape = shapeOf(start);
  if (state.view === "compare") columns.show(answer, look, fresh);
  else shelf.show(answer, look, fresh);
}

function showMarks() {
  const of = (id) => marks.of(id);
  if (state.view === "compare") columns.mark(of);
  else shelf.mark(of);
  for (const kind of ["right", "wrong"]) {
    const wide = byId("why").querySelector(`.mark-wide.${kind}`);
    if (wide && why.item) wide.setAttribute("aria-pressed", String(marks.of(why.item.id) === kind));
  }
}

/** Let the service keep the marks, so that they survive a reload under a short id. */
function saveMarks() {
  const saved = { right: marks.list("right"), wrong: marks.list("wrong") };
  const write = (id) => {
    if (!same(saved, { right: marks.list("right"), wrong: marks.list("wrong") })) return; // changed in the meantime
    state = { ...state, saved: { ...saved, id } };
    remember(state, false);
  };
  write(null);
  if (saved.right.length + saved.wrong.length) keep(saved).then(write, failed);
}

function open(entry, { focus = false, push }) {
  returnTo = { id: idWords(entry.id), side: document.activeElement?.closest?.(".row")?.dataset.side ?? "after" };
  marks.know([entry]);
  state = { ...state, open: entry.id };
  remember(state, push);
  explain(focus || narrow.matches);
}

/** Show the explanation selected by the state, if any. */
async function explain(focus = false) {
  const shown = state.open !== null;
  byId("bench").classList.toggle("explaining", shown);
  (state.view === "compare" ? columns : shelf).select(state.open);
  if (!shown) {
    chain.stop();
    explained = null;
    why.hide();
    return sheetOpen() === "why" && sheet(null);
  }
  const words = { ...question(state), level: state.level ?? usualLevel(start), item: state.open };
  if (narrow.matches) sheet("why");
  if (same(words, explained)) return focus && why.focus();
  const card = marks.cards.get(idWords(state.open)) ?? { id: state.open, name: String(state.open), picture: null };
  why.loading(card.name);
  if (focus) why.focus();
  try {
    const found = await chain(words);
    if (!found) return;
    explained = words;
    const reason = whyNot(start, state);
    marks.know([found.item]);
    for (const one of found.map?.points ?? []) if (one.role === "query") one.card = answer.query;
    why.show(found, found.item, answer.query, { markable: !reason, mark: marks.of(state.open), reason });
    if (focus) why.focus();
    say(found.words);
  } catch (error) {
    if (error.status === 401) failed(error);
    else why.problem(card.name, error.message, () => explain(true));
  }
}

function close() {
  const inside = byId("why").contains(document.activeElement) || narrow.matches;
  go({ open: null }, true);
  if (inside) focusResult(returnTo?.id, returnTo?.side);
}

function failed(error, again) {
  if (error.status === 401) return askToken(begin);
  problem(error.message, again);
}

function problem(words, again) {
  rank.stop();
  nothing();
  lists.replaceChildren(problemBox(words, again));
}

/** Clear the explanation because there is no answer. */
function nothing() {
  answer = shownQuestion = explained = null;
  chain.stop();
  why.hide();
  byId("bench").classList.remove("explaining");
  if (sheetOpen() === "why") sheet(null);
}

function welcome() {
  nothing();
  lists.replaceChildren(welcomeBox());
}

/** Start: load the service data, then show the view of the URL, or the example. */
async function begin() {
  lists.replaceChildren(el("p", { class: "waiting" }, "Loading …"));
  try {
    start = await ask("view/start");
    state = await restored(state);
  } catch (error) {
    return failed(error, begin);
  }
  entitle(start);
  const take = (query) => {
    go({ query, ...NO_MARKS, open: null }, true);
    closeRail();
  };
  const repeat = () => {
    shownQuestion = null;
    pick.again();
    search();
  };
  pick = picker(byId("panel-query"), start, { onQuery: take, failed, toast });
  controls = new Controls(byId("panel-settings"), start, go, {
    python: () => copyPython(answer, start, state.query, toast),
    download: () => offer(answer, toast),
  });
  news ??= new News(start, thingOf(start), { ask: searchWith, update: repeat });
  state = tidy(state, start);
  if (!state.query && start.example) {
    state = { ...state, query: start.example.query };
    remember(state, false);
  }
  refresh();
}

addEventListener("popstate", async (event) => {
  const next = (state = stateOf(location.search, event.state));
  if (!controls) return;
  const found = await restored(next).catch(failed);
  if (state !== next || !found) return; // the state has changed in the meantime
  state = found;
  refresh();
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (sheetOpen() === "rail") closeRail();
  else if (!byId("why").hidden) close();
});
addEventListener(
  "click",
  (event) => {
    // must run first, because the code below may open a sheet
    if (!sheetOpen() || event.target.closest?.(".rail, .why, dialog")) return;
    if (sheetOpen() === "rail") closeRail();
    else close();
  },
  true,
);
addEventListener("online", () => byId("try-again")?.click());
narrow.addEventListener("change", () => {
  sheet(null);
  if (answer) explain();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // a URL with # would add a history entry
  lists.focus();
});
byId("close-rail").addEventListener("click", closeRail);
byId("copy-link").addEventListener("click", () => copyLink(state, toast));
tabs();
begin();
