// Uploads: the service turns a text or a picture into a vector, and keeps a small copy of the picture to be shown.

import { ask, Problem } from "./api.js";
import { keepUpload } from "./kept.js";
import { textAdvice } from "./messages.js";

const KEPT = 12; // vectors of texts kept for navigation through the history
const SIDE = 384; // pixels of the copy of a picture
const ENDINGS = /\.(jpe?g|png|webp|gif|bmp|tiff?|heic|avif)$/i;
const vectors = new Map(); // text -> its vector

/** Convert a question for the service: a text becomes its vector, which is requested only once. */
export async function encoded(words, start, signal) {
  const text = words.query?.text;
  if (text === undefined) return words;
  if (!start.encoder?.texts) {
    const advice = textAdvice(start);
    throw new Problem(`${advice.words} ${advice.commands.replace("\n", "; ")}`);
  }
  const vector = vectors.get(text) ?? (await ask("view/encode", { text }, signal)).vector;
  vectors.delete(text);
  vectors.set(text, vector);
  if (vectors.size > KEPT) vectors.delete(vectors.keys().next().value);
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
  return upload({ vector, name: file.name, picture: await smallCopy(file) });
}

/** Let the service keep a vector, with the name and the picture of its file, and return it as a query. */
export async function upload(query) {
  return { ...query, upload: await keepUpload(query) };
}

/** Return a small copy of a picture as a data: URL; null if this browser cannot decode it. */
async function smallCopy(file) {
  try {
    const image = await createImageBitmap(file);
    const scale = Math.min(1, SIDE / Math.max(image.width, image.height));
    const [width, height] = [image.width, image.height].map((side) => Math.max(1, Math.round(side * scale)));
    const canvas = new OffscreenCanvas(width, height);
    const context = canvas.getContext("2d");
    context.fillStyle = "white"; // behind transparent parts, as in the thumbnails
    context.fillRect(0, 0, width, height);
    context.drawImage(image, 0, 0, width, height);
    return await dataUrl(await canvas.convertToBlob({ type: "image/jpeg", quality: 0.85 }));
  } catch {
    return null;
  }
}

function dataUrl(blob) {
  return new Promise((found, failed) => {
    const reader = new FileReader();
    reader.onload = () => found(reader.result);
    reader.onerror = () => failed(new Error(`${blob.name} cannot be read; is it still there?`));
    reader.readAsDataURL(blob);
  });
}

async function base64(file) {
  const address = await dataUrl(file);
  return address.slice(address.lastIndexOf(",") + 1).replace(/^data:.*/, "");
}

/** Return the card of the query with data only this page has: file name, picture, text. */
export function addPageData(card, query) {
  if (query?.text !== undefined) return { ...card, name: query.text, text: query.text };
  if (!query?.vector) return card;
  return { ...card, name: query.name ?? card.name, picture: query.picture ?? null };
}
