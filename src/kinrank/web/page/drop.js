// File input: a dropped or chosen file becomes a query, a vector or (if the service can encode it) a picture.

import { latest } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { plural } from "./numbers.js";
import { vectorIn } from "./npy.js";
import { isPicture, pictureQuery, upload } from "./uploads.js";

const VECTORS = ".npy,.json,.csv,.tsv,.txt";

let taking = null; // handles a file that is dropped anywhere on the page

/** Create the drop area, which is also a file button. Calls `onQuery(query)`, or shows an error with `toast`. */
export function dropZone(start, { onQuery, failed, toast }) {
  const pictures = Boolean(start.encoder?.pictures);
  const input = el("input", {
    type: "file",
    accept: pictures ? `${VECTORS},image/*` : VECTORS,
    id: "vector-file",
    class: "unseen",
  });
  const title = pictures ? "Drop a picture, or choose one" : "Drop a vector, or choose a file";
  const kinds = `.npy, .json or .csv, ${plural(start.dimensions, "number")}`;
  const heading = el("b", {}, title);
  const problem = el("p", { class: "problem-words", id: "drop-problem", hidden: true });
  const zone = el(
    "label",
    { class: "drop", for: "vector-file" },
    input,
    icon("file"),
    el("span", {}, heading, el("small", {}, pictures ? "anywhere on this page" : kinds)),
  );
  const read = latest((signal, file) => queryIn(file, start, signal));
  const busy = (words) => {
    zone.classList.toggle("busy", words !== null);
    heading.textContent = words ?? title;
  };
  const take = async (file) => {
    if (!file) return;
    problem.hidden = true;
    busy(`Reading ${file.name} …`);
    try {
      const query = await read(file);
      if (!query) return; // replaced by a newer file
      busy(null);
      onQuery(query);
    } catch (error) {
      busy(null);
      if (error.status === 401) return failed(error);
      problem.textContent = error.message;
      problem.hidden = false;
      toast(error.message);
    }
  };
  input.addEventListener("change", () => {
    take(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  if (!taking) whole();
  taking = take;
  return el("div", { class: "drop-place" }, zone, problem);
}

async function queryIn(file, start, signal) {
  if (start.encoder?.pictures && isPicture(file)) return pictureQuery(file, start.limits.body, signal);
  const vector = await vectorIn(file);
  if (vector.length !== start.dimensions) {
    const needed = plural(start.dimensions, "number");
    throw new Error(
      `${file.name} holds ${plural(vector.length, "number")}; this gallery needs ${needed}, from the same model.`,
    );
  }
  return upload({ vector, name: file.name, picture: null });
}

/** Accept a dropped file anywhere, and show this while a file hovers over the page. */
function whole() {
  let inside = 0;
  const show = (change) => {
    inside = Math.max(0, change === 0 ? 0 : inside + change);
    byId("bench").classList.toggle("dropping", inside > 0);
  };
  const holds = (event) => event.dataTransfer?.types?.includes("Files");
  addEventListener("dragenter", (event) => holds(event) && show(1));
  addEventListener("dragleave", (event) => holds(event) && show(-1));
  addEventListener("dragover", (event) => holds(event) && event.preventDefault());
  addEventListener("drop", (event) => {
    if (!holds(event)) return;
    event.preventDefault();
    show(0);
    taking(event.dataTransfer.files[0]);
  });
}
