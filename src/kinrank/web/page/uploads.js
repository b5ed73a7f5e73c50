// Uploads: the service turns a text or a picture into a vector; the picture stays here to be shown.

import { ask } from "./api.js";
import { vectorWords } from "./state.js";

const KEPT = 12; // texts and pictures kept for navigation through the history
const ENDINGS = /\.(jpe?g|png|webp|gif|bmp|tiff?|heic|avif)$/i;
const vectors = new Map(); // text -> its vector
const pictures = new Map(); // encoded vector -> URL of its picture

/** Add an entry to a map of limited size; the oldest entry is dropped. */
function keep(map, key, value, forgotten = () => {}) {
  if (map.has(key)) forgotten(map.get(key));
  map.delete(key);
  map.set(key, value);
  while (map.size > KEPT) {
    const [oldest, gone] = map.entries().next().value;
    map.delete(oldest);
    forgotten(gone);
  }
}

/** Convert a question for the service: a text becomes its vector, which is requested only once. */
export async function encoded(words, signal) {
  const text = words.query?.text;
  if (text === undefined) return words;
  const vector = vectors.get(text) ?? (await ask("view/encode", { text }, signal)).vector;
  keep(vectors, text, vector);
  return { ...words, query: { vector } };
}

export const isPicture = (file) => file.type.startsWith("image/") || ENDINGS.test(file.name);

/** Turn a picture file into a query. `most` is the largest request body in bytes. */
export async function pictureQuery(file, most, signal) {
  const room = Math.floor((most - 100) * 0.75); // base64 needs four characters for three bytes
  const size = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MB`;
  if (file.size > room)
    throw new Error(`${file.name} has ${size(file.size)}; this service takes pictures of up to ${size(room)}.`);
  const { vector } = await ask("view/encode", { image: await base64(file) }, signal);
  keep(pictures, vectorWords(vector), URL.createObjectURL(file), (gone) => URL.revokeObjectURL(gone));
  return { vector, name: file.name };
}

function base64(file) {
  return new Promise((found, failed) => {
    const reader = new FileReader();
    reader.onload = () => found(reader.result.slice(reader.result.lastIndexOf(",") + 1).replace(/^data:.*/, ""));
    reader.onerror = () => failed(new Error(`${file.name} cannot be read; is it still there?`));
    reader.readAsDataURL(file);
  });
}

/** Return the card of the query with data only this page has: file name, picture, text. */
export function addPageData(card, query) {
  if (query?.text !== undefined) return { ...card, name: query.text, text: query.text };
  if (!query?.vector) return card;
  const seen = pictures.get(vectorWords(query.vector)) ?? null;
  return { ...card, name: query.name ?? card.name, picture: seen };
}
