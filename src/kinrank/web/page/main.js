// The page: reads its state from the URL, requests the data, shows it, and writes the state back to the URL.

import { ask, latest } from "./api.js";
import { Columns } from "./columns.js";
import { Controls, levelChoice, usualLevel } from "./controls.js";
import { byId, el, narrow, paused } from "./dom.js";
import { Marks, whyNot } from "./marks.js";
import { entitle, hint, LOST, nothingFound, problemBox, shapeOf, welcomeBox } from "./messages.js";
import { plural } from "./numbers.js";
import { picker } from "./picker.js";
import { say, toast } from "./say.js";
import { closeRail, openSheet as sheetOpen, openRail, sheet, tabs } from "./sheets.js";
import { copyLink, copyPython, offer } from "./share.js";
import { CLOSED, idWords, question, remember, same, stateOf, tidy } from "./state.js";
import { band, heads, named, risen, spoken } from "./summary.js";
import { askToken } from "./token.js";
import { encoded } from "./uploads.js";
import { Why } from "./why.js";

let start = null; // data about the service from /view/start
let state = stateOf(location.search, history.state); // state from the URL
let answer = null,
  shownQuestion = null; // the current answer and its question
let explained = null; // the question of the open explanation
let pick = null,
  controls = null; // the two tabs of the side bar
let returnTo = null; // the result that had the focus before its explanation opened
const lists = byId("lists");

const rank = latest(async (signal, words) => ask("view/rank", await encoded(words, signal), signal));
const chain = latest(async (signal, words) => ask("view/chain", await encoded(words, signal), signal));
const rankSoon = paused(() => search(), 130);

const columns = new Columns({
  opened: (entry, byKeys) => open(entry, { focus: byKeys, push: true }),
  pointed: (entry) => state.open !== CLOSED && state.open !== null && !narrow.matches && followSoon(entry),
  marked: (entry, kind) => marks.toggle(entry, kind),
});
const followSoon = paused((entry) => open(entry, { push: false }), 140);
const marks = new Marks({
  again: (right, wrong) => go({ right, wrong }, true),
  changed: () => {
    marks.draw();
    showMarks();
    say(
      `${plural(marks.list("right").length, "item")} marked right, ${plural(marks.list("wrong").length, "item")} wrong.`,
    );
  },
});
const why = new Why(byId("why"), {
  closed: close,
  open: (card) => open(card, { push: true }),
  ask: (card) => go({ query: { item: card.id }, right: [], wrong: [], open: null }, true),
  mark: (card, kind) => marks.toggle(card, kind),
});

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
  if (answer !== named(answer, state.query)) {
    answer = named(answer, state.query);
    draw(false);
  }
  explain();
}

async function search() {
  const words = question(state);
  const fresh = !answer || !same(words.query, shownQuestion?.query);
  lists.setAttribute("aria-busy", "true");
  try {
    const found = await rank({ ...words, level: state.level ?? usualLevel(start) });
    if (!found) return;
    answer = named(found, state.query);
    shownQuestion = words;
    explained = null;
    marks.know([...found.before, ...found.after, ...found.marked.positives, ...found.marked.negatives]);
    draw(fresh);
    say(spoken(found));
    const best = state.open === null && !narrow.matches ? risen(found) : null;
    if (best) remember((state = { ...state, open: best.id }), false);
    explain();
  } catch (error) {
    failed(error, search);
  } finally {
    lists.removeAttribute("aria-busy");
  }
}

function draw(fresh) {
  const top = band(answer, { change: openRail, level: levelChoice(start, state, go) });
  const found = answer.after.length || answer.before.length;
  lists.replaceChildren(top, marks.root, heads(answer), found ? columns.root : nothingFound(), hint());
  redraw(fresh);
}

function redraw(fresh = false) {
  const reason = whyNot(start, state);
  marks.draw(reason);
  if (!answer) return;
  const shape = shapeOf(start);
  columns.root.dataset.shape = shape;
  columns.show(answer, (entry) => ({ markable: !reason, mark: marks.of(entry.id), shape }), fresh);
}

function showMarks() {
  columns.mark((id) => marks.of(id));
  for (const kind of ["right", "wrong"]) {
    const wide = byId("why").querySelector(`.mark-wide.${kind}`);
    if (wide && why.item) wide.setAttribute("aria-pressed", String(marks.of(why.item.id) === kind));
  }
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
  const shown = state.open !== null && state.open !== CLOSED;
  byId("bench").classList.toggle("explaining", shown);
  columns.select(shown ? state.open : null);
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
  go({ open: CLOSED }, true);
  if (inside) columns.back(returnTo);
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
  } catch (error) {
    return failed(error, begin);
  }
  entitle(start);
  const take = (query) => {
    go({ query, right: [], wrong: [], open: state.open === CLOSED ? CLOSED : null }, true);
    closeRail();
  };
  pick = picker(byId("panel-query"), start, { onQuery: take, failed, toast });
  controls = new Controls(byId("panel-settings"), start, go);
  state = tidy(state, start);
  if (!state.query && start.example) {
    state = { ...state, query: start.example.query, open: narrow.matches ? null : (start.example.item ?? null) };
    remember(state, false);
  }
  refresh();
}

addEventListener("popstate", (event) => {
  state = stateOf(location.search, event.state);
  if (controls) refresh();
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
byId("copy-python").addEventListener("click", () => copyPython(answer, start, state.query, toast));
byId("save").addEventListener("click", () => offer(answer, toast));
tabs();
begin();
