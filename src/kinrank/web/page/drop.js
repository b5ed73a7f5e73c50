// A file that is dropped on the page or chosen -> a query: a vector, or a picture where the service can encode one.

import { ask } from "./api.js";
import { byId, el, icon } from "./dom.js";
import { plural } from "./numbers.js";
import { vectorIn } from "./npy.js";

const VECTORS = ".npy,.json,.csv,.tsv,.txt";

let taking = null; // what is done with a file that is dropped anywhere

/** The place to drop a file on, which is also a button that asks for one. */
export function dropZone(start, asked, failed) {
  const kinds = start.encoder ? `${VECTORS},image/*` : VECTORS;
  const input = el("input", { type: "file", accept: kinds, id: "vector-file", class: "unseen" });
  const take = async (file) => {
    if (!file) return;
    try {
      asked(await queryIn(file, start), file.name);
    } catch (error) {
      failed(error.message);
    }
  };
  input.addEventListener("change", () => {
    take(input.files[0]);
    input.value = ""; // so that the same file can be chosen again
  });
  if (!taking) whole();
  taking = take;
  return el(
    "label",
    { class: "drop", for: "vector-file" },
    input,
    icon("file"),
    el(
      "span",
      {},
      el("b", {}, start.encoder ? "Drop a picture or a vector" : "Drop a vector"),
      el("small", {}, `.npy, .json or .csv, ${plural(start.dimensions, "number")}`),
    ),
  );
}

async function queryIn(file, start) {
  if (start.encoder && file.type.startsWith("image/")) {
    const { vector } = await ask("view/encode", { image: await base64(file) });
    return { vector, name: file.name };
  }
  const vector = await vectorIn(file);
  if (vector.length !== start.dimensions) {
    const needed = plural(start.dimensions, "number");
    throw new Error(
      `${file.name} holds ${plural(vector.length, "number")}; this gallery needs ${needed}, from the same model.`,
    );
  }
  return { vector, name: file.name };
}

async function base64(file) {
  let letters = "";
  for (const byte of new Uint8Array(await file.arrayBuffer())) letters += String.fromCharCode(byte);
  return btoa(letters);
}

/** A file may be dropped anywhere; the page says so while one hovers above it. */
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
