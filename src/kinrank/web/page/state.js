// State of the page in its URL: query, k, method, parameters, marks, level, view, the explained item.

export const K = 20;
export const CANDIDATES = 1000;
const LONGEST = 9000; // characters of a vector in a URL; the size of a request header is limited as well

export const EMPTY = {
  query: null,
  k: K,
  method: null,
  parameters: {},
  candidates: CANDIDATES,
  right: [],
  wrong: [],
  level: null,
  view: "results", // or "compare"
  open: null,
  saved: null, // marks that may not be applied yet, with the short id under which the service keeps them
};

/** Encode an id: texts stay as they are, unless they are ambiguous. */
export function idWords(id) {
  if (typeof id !== "string") return String(id);
  return /^-?\d+$/.test(id) || id === "none" || id === "" || id.startsWith('"') ? JSON.stringify(id) : id;
}

export function wordsId(words) {
  if (/^-?\d+$/.test(words)) {
    const number = Number(words);
    return Number.isSafeInteger(number) ? number : BigInt(words);
  }
  if (!words.startsWith('"')) return words;
  try {
    return JSON.parse(words);
  } catch {
    return words;
  }
}

/** Encode a vector for a URL: float32, little-endian, URL-safe base64. */
export function vectorWords(vector) {
  const bytes = new Uint8Array(new Float32Array(vector).buffer);
  let letters = "";
  for (const byte of bytes) letters += String.fromCharCode(byte);
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

export function wordsVector(words) {
  try {
    const letters = atob(words.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    return bytes.length && bytes.length % 4 === 0 ? Array.from(new Float32Array(bytes.buffer)) : null;
  } catch {
    return null;
  }
}

/** True if a query fits into a URL. */
export function fitsAddress(query) {
  if (query.upload) return true;
  if ("text" in query) return String(new URLSearchParams({ text: query.text })).length <= LONGEST;
  return !("vector" in query) || query.vector.length * 4 * (4 / 3) <= LONGEST;
}

/** Encode the state as a query string, without default values. */
export function address(state) {
  const words = new URLSearchParams();
  const { query } = state;
  if (query && "item" in query) words.set("item", idWords(query.item));
  if (query && "query" in query) words.set("query", String(query.query));
  if (query && "text" in query) words.set("text", fitsAddress(query) ? query.text : ""); // otherwise the history state holds it
  if (query?.upload) words.set("upload", query.upload);
  else if (query && "vector" in query) {
    words.set("vector", fitsAddress(query) ? vectorWords(query.vector) : "kept");
    if (query.name) words.set("name", query.name);
  }
  if (state.k !== K) words.set("k", String(state.k));
  if (state.method) words.set("method", state.method);
  for (const [name, value] of Object.entries(state.parameters)) words.set(`p.${name}`, JSON.stringify(value));
  if (state.candidates !== CANDIDATES) words.set("candidates", String(state.candidates));
  const { id: marks, right, wrong } = state.saved ?? state;
  if (marks) words.set("marks", marks);
  else {
    for (const id of right) words.append("right", idWords(id));
    for (const id of wrong) words.append("wrong", idWords(id));
  }
  if (state.level) words.set("level", state.level);
  if (state.view !== EMPTY.view) words.set("view", state.view);
  if (state.open !== null) words.set("open", idWords(state.open));
  const text = words.toString();
  return text ? `?${text}` : "";
}

const count = (words, usual) => (/^\d{1,9}$/.test(words ?? "") ? Math.max(1, Number(words)) : usual);

/**
 * Decode the state of a URL. `kept` is the history state, which holds vectors and texts that are too long for a URL.
 * `restored` of kept.js replaces the short ids in it.
 */
export function stateOf(search, kept = null) {
  const words = new URLSearchParams(search);
  const ids = (name) => words.getAll(name).filter(Boolean).map(wordsId);
  const state = { ...EMPTY, parameters: {}, right: ids("right"), wrong: ids("wrong") };
  if (words.has("item")) state.query = { item: wordsId(words.get("item")) };
  else if (words.get("upload")) state.query = { upload: words.get("upload") };
  else if (/^\d{1,9}$/.test(words.get("query") ?? "")) state.query = { query: Number(words.get("query")) };
  else if (words.has("vector")) {
    const vector = words.get("vector") === "kept" ? (kept?.vector ?? null) : wordsVector(words.get("vector"));
    const { name = words.get("name") ?? "your vector", picture = null } = kept ?? {};
    state.query = vector ? { vector, name, picture } : { lost: true };
  } else if (words.has("text")) {
    const text = words.get("text").trim() || kept?.text;
    state.query = text ? { text } : { lost: true };
  }
  state.k = count(words.get("k"), K);
  state.candidates = count(words.get("candidates"), CANDIDATES);
  state.method = words.get("method") || null;
  state.level = words.get("level") || null;
  for (const [name, text] of words) {
    if (!name.startsWith("p.")) continue;
    try {
      state.parameters[name.slice(2)] = JSON.parse(text);
    } catch {
      state.parameters[name.slice(2)] = text;
    }
  }
  const open = words.get("open");
  state.open = open === null || open === "none" ? null : wordsId(open);
  if (words.get("view") === "compare") state.view = "compare";
  if (words.get("marks")) state.saved = { id: words.get("marks"), right: [], wrong: [] };
  return state;
}

/** Remove values that this service does not know, because a link can come from another service. */
export function tidy(state, start) {
  const named = state.method === start.prepared.method ? null : state.method;
  const declared = start.methods.find((one) => one.name === (named ?? start.prepared.method));
  const known = new Set(declared?.parameters.map((one) => one.name));
  return {
    ...state,
    method: declared ? named : null,
    parameters: Object.fromEntries(Object.entries(state.parameters).filter(([name]) => known.has(name))),
    k: Math.min(state.k, start.limits.k),
    candidates: Math.min(state.candidates, start.limits.candidates),
    level: start.levels.includes(state.level) ? state.level : null,
  };
}

/** Write the state to the URL, as a new history entry or in place. */
export function remember(state, push) {
  const { query } = state;
  const { vector, name, picture, upload, text } = query ?? {};
  const kept = vector && !upload ? { vector: Array.from(vector), name, picture } : text ? { text } : null;
  const where = address(state) || location.pathname;
  try {
    history[push ? "pushState" : "replaceState"](kept, "", where);
  } catch {
    // browsers limit how often the URL can change; the next change updates it
  }
}

/** Return the request body as a string; equal strings get equal answers. */
export function question(state) {
  const query = state.query && "vector" in state.query ? { vector: state.query.vector } : state.query;
  return {
    query,
    k: state.k,
    method: state.method,
    parameters: state.parameters,
    candidates: state.candidates,
    positives: state.right,
    negatives: state.wrong,
    level: state.level,
  };
}

export const same = (one, other) => words(one) === words(other);
const words = (value) => JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}n` : inner));
