// Uploads and marks that the service keeps under short ids, so that links are short and survive a reload.

import { ask } from "./api.js";
import { vectorWords, wordsVector } from "./state.js";

const known = new Map(); // id -> what is kept

/** Keep a view and return its short id; null if the service does not keep it, so that the link must hold it all. */
export async function keep(view) {
  try {
    const { id } = await ask("view/keep", view);
    known.set(id, view);
    return id;
  } catch (error) {
    if (error.status === 401) throw error;
    return null;
  }
}

export const keepUpload = ({ vector, name, picture }) => keep({ vector: vectorWords(vector), name, picture });

async function find(id) {
  if (!known.has(id)) known.set(id, await ask(`view/kept/${encodeURIComponent(id)}`));
  return known.get(id);
}

/** Replace the short ids of a state by the upload and the marks that they stand for. */
export async function restored(state) {
  const { query, saved } = state;
  const result = { ...state };
  try {
    if (query?.upload && !query.vector) {
      const { vector, name, picture } = await find(query.upload);
      const numbers = wordsVector(vector ?? "");
      const shown = picture?.startsWith("data:image/") ? picture : null;
      result.query = numbers ? { vector: numbers, name, picture: shown, upload: query.upload } : { lost: true };
    }
  } catch (error) {
    if (error.status === 401) throw error;
    result.query = { lost: true };
  }
  try {
    if (saved?.id && !state.right.length && !state.wrong.length) {
      const { right, wrong } = await find(saved.id);
      Object.assign(result, { right, wrong, saved: { right, wrong, id: saved.id } });
    }
  } catch (error) {
    if (error.status === 401) throw error;
    result.saved = null;
  }
  return result;
}
