// The tab "Search": text query, search by name, folders, grid of items, random item, file.

import { ask, latest } from "./api.js";
import { describeForm } from "./describe.js";
import { dropZone } from "./drop.js";
import { button, el, icon, paused } from "./dom.js";
import { Grid } from "./grid.js";
import { shapeOf, textAdvice, thingOf } from "./messages.js";
import { plural, whole } from "./numbers.js";

/** Fill the panel. Calls `onQuery(query)` for a picked query; returns `shows(query)`, which highlights the current one. */
export function picker(panel, start, { onQuery, failed, toast }) {
  let kind = start.has.queries ? "queries" : "items";
  let words = "";
  let folder = "";
  let present = null;

  const where = () => ({ kind, words, ...(folder && kind === "items" ? { folder } : {}) });
  const page = async (offset, limit) => {
    const found = await ask(`view/items?${new URLSearchParams({ ...where(), offset, limit })}`);
    if (offset === 0) browse(found.folders);
    return found;
  };
  const queryOf = (card) => (kind === "queries" ? { query: card.number } : { item: card.id });
  const empty = el("div", { class: "empty", hidden: true });
  const count = el("p", { class: "count", role: "status" });
  const grid = new Grid({
    label: "What to search with",
    fetched: page,
    picked: (card) => onQuery(queryOf(card)),
    onTotal: (total) => {
      const thing = kind === "queries" ? ["query", "queries"] : [thingOf(start)];
      count.textContent = words ? `${whole(total)} found` : plural(total, ...thing);
      empty.hidden = total > 0;
      grid.root.hidden = total === 0;
      empty.textContent = words
        ? `No name, label or text contains “${words}”.`
        : "There is nothing to pick from. Drop a file instead.";
      if (words && !start.encoder?.texts) {
        const advice = textAdvice(start);
        empty.append(el("p", {}, advice.words), el("pre", {}, advice.commands));
      }
    },
    failed: (problem) => {
      grid.root.removeAttribute("aria-busy");
      if (problem.status === 401) return failed(problem);
      grid.root.hidden = true;
      empty.hidden = false;
      empty.replaceChildren(
        `${problem.message} `,
        button("Try again", () => again(), { kind: "plain" }),
      );
    },
  });
  grid.shape = shapeOf(start);
  grid.chosen = (card) =>
    present !== null && (kind === "queries" ? present.query === card.number : present.item === card.id);
  const again = () => {
    empty.hidden = true;
    grid.root.hidden = false;
    grid.restart();
  };

  const field = el("input", {
    type: "search",
    id: "words",
    placeholder: "Search by name",
    "aria-label": "Search by name",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "200",
  });
  const searched = paused(() => {
    if (field.value.trim() === words) return;
    words = field.value.trim();
    again();
  }, 160);
  field.addEventListener("input", searched);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown") return;
    event.preventDefault();
    grid.root.focus();
  });

  const one = latest((signal) => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    return ask(`view/items?${new URLSearchParams({ ...where(), offset: 0, limit: 1, seed })}`, undefined, signal);
  });
  const random = button(
    "",
    async () => {
      try {
        const answer = await one();
        if (answer?.items.length) onQuery(queryOf(answer.items[0]));
      } catch (problem) {
        if (problem.status === 401) failed(problem);
        else toast(problem.message);
      }
    },
    { drawing: "dice", kind: "tool icon", label: "A random one", id: "random" },
  );

  const folders = el("select", {
    id: "folder",
    "aria-label": "Folder",
    hidden: true,
    onchange: () => {
      folder = folders.value;
      again();
    },
  });
  /** Show the folders to choose from, if there are any. */
  function browse(found) {
    folders.hidden = !found.length || kind !== "items";
    const option = (name, items, depth) =>
      el("option", { value: name, selected: name === folder }, `${"\u2003".repeat(depth)}${name.split("/").at(-1)} (${whole(items)})`);
    folders.replaceChildren(
      el("option", { value: "" }, "All folders"),
      ...found.map((one) => option(one.name, one.items, one.name.split("/").length - 1)),
    );
  }

  const describe = start.encoder?.texts ? describeForm(onQuery) : null;
  const bar = el("div", { class: "find" }, el("span", { class: "field" }, icon("seek"), field), random);
  const drop = dropZone(start, { onQuery, failed, toast });
  panel.replaceChildren(describe ?? "", bar, start.has.queries ? kinds() : "", folders, count, grid.root, empty, drop);
  return {
    shows: (query) => {
      present = query;
      grid.mark();
      describe?.shows(query);
    },
    again,
  };

  function kinds() {
    const choices = [
      ["queries", `Queries (${whole(start.queries)})`],
      ["items", `${thingOf(start).replace(/^./, (letter) => letter.toUpperCase())}s (${whole(start.items)})`],
    ];
    return el(
      "div",
      { class: "segments", role: "radiogroup", "aria-label": "What to pick from" },
      choices.map(([value, text]) =>
        el(
          "label",
          {},
          el("input", {
            type: "radio",
            name: "kind",
            value,
            checked: value === kind,
            onchange: () => {
              kind = value;
              again();
            },
          }),
          el("span", {}, text),
        ),
      ),
    );
  }
}
