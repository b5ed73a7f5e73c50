// Export: link and Python code to the clipboard, results to a file.

import { byId, button, el } from "./dom.js";
import { fitsAddress } from "./state.js";

/** Copy a text. The clipboard API needs a secure origin, so there is a fallback. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function box(title, inside, actions) {
  const dialog = byId("box");
  const close = button("Close", () => dialog.close(), { kind: "tool" });
  dialog.replaceChildren(
    el("h2", { id: "box-title" }, title),
    ...inside,
    el("div", { class: "actions" }, actions, close),
  );
  dialog.showModal();
  return dialog;
}

export async function copyLink(state, toast) {
  const { query } = state;
  if (query && !query.lost && !fitsAddress(query)) {
    const what = "text" in query ? "A text of this length" : `A vector of ${query.vector.length} numbers`;
    return toast(`${what} is too long for a link; share the ${"text" in query ? "text" : "file"} instead.`);
  }
  toast(
    (await copy(location.href))
      ? "Link copied: it opens this view."
      : "The link could not be copied; copy it from the address bar.",
  );
}

/** Complete the Python code: URL of this page, placeholder for a token, and the text of a text query. */
function fromHere(lines, start, query) {
  if (query?.text !== undefined) {
    const asking = `texts=[${JSON.stringify(query.text)}]`; // a JSON string is also valid Python
    lines = lines.replace(/^vector = .*\n/m, "").replace("queries=[vector]", () => asking);
  }
  const here = new URL(".", location.href).href.replace(/\/$/, "");
  const token = start.tokens ? ', token="YOUR-TOKEN"' : "";
  return lines.replace(/kr\.Client\('[^']*'\)/, () => `kr.Client(${JSON.stringify(here)}${token})`);
}

/** Copy the Python code that returns the same results, and show it. */
export async function copyPython(answer, start, query, toast) {
  if (!answer) return toast("Pick a query first.");
  const lines = fromHere(answer.python, start, query);
  const done = await copy(lines);
  const again = button(
    done ? "Copy again" : "Copy",
    async () => toast((await copy(lines)) ? "Copied." : "Copying failed."),
    { kind: "tool primary", autofocus: true },
  );
  box(
    "The same in Python",
    [
      el("p", {}, done ? "These lines are on the clipboard." : "Copy these lines:"),
      el("pre", { tabindex: "0", role: "region", "aria-label": "Python lines" }, el("code", {}, lines)),
    ],
    again,
  );
}

const cell = (value) => {
  let text = value === null || value === undefined ? "" : String(value);
  if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`; // otherwise a spreadsheet would run it as a formula
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

function csv(answer) {
  const rows = [["list", "rank", "id", "name", "label", "distance", "right", "rank_in_other_list"]];
  for (const side of ["before", "after"]) {
    for (const one of answer[side])
      rows.push([side, one.rank, one.id, one.name, one.label, one.distance, one.right, one.other ?? one.other_beyond]);
  }
  return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function saved(text, name, kind) {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Offer the results as file downloads. */
export function offer(answer, toast) {
  if (!answer) return toast("Pick a query first.");
  const whole = () => JSON.stringify(answer, (_, value) => (typeof value === "bigint" ? String(value) : value), 2);
  const kinds = [
    ["JSON", whole, "application/json"],
    ["CSV", () => csv(answer), "text/csv"],
  ];
  const dialog = box(
    "Download the results",
    [el("p", {}, "Both lists, with ranks, distances, and right or wrong if known.")],
    kinds.map(([name, text, kind]) =>
      button(
        name,
        () => {
          saved(text(), `kinrank.${name.toLowerCase()}`, kind);
          dialog.close();
        },
        { kind: "tool primary" },
      ),
    ),
  );
}
