// Client of the service: sends requests and returns their JSON, or throws a Problem with a message for the user.

export class Problem extends Error {
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

const BIG = /[[:,]\s*-?\d{16,}\s*[,\]}]/; // ids can be integers that a JavaScript number would round

function parsed(text) {
  if (!BIG.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_, value, context) => {
    const rounded = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
    return rounded && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
  });
}

const written = (body) =>
  JSON.stringify(body, (_, value) =>
    typeof value === "bigint" ? (JSON.rawJSON?.(String(value)) ?? Number(value)) : value,
  );

/** Send GET, or POST if there is a body. URLs are relative because the page can be served under any path. */
export async function ask(path, body, signal) {
  const options =
    body === undefined
      ? { signal }
      : { method: "POST", headers: { "Content-Type": "application/json" }, body: written(body), signal };
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const words = navigator.onLine
      ? "it may have been stopped, or the way to it is broken."
      : "this device is offline.";
    throw new Problem(`The service does not answer: ${words}`);
  }
  if (response.ok) return text ? parsed(text) : null;
  throw new Problem(sentence(text, response.status), response.status);
}

function sentence(text, status) {
  let detail;
  try {
    detail = JSON.parse(text).detail;
  } catch {
    detail = "";
  }
  if (typeof detail !== "string" || !detail) return `The service answered with status ${status} and gave no reason.`;
  const words = detail[0].toUpperCase() + detail.slice(1);
  return /[.!?]$/.test(words) ? words : `${words}.`;
}

/**
 * Keep only the latest call: a new call aborts the `work(signal, ...given)` that is still running, and an outdated
 * result becomes `undefined`.
 */
export function latest(work) {
  let running = null;
  const call = async (...given) => {
    running?.abort();
    const mine = (running = new AbortController());
    try {
      const answer = await work(mine.signal, ...given);
      return mine.signal.aborted ? undefined : answer;
    } catch (error) {
      if (mine.signal.aborted || error.name === "AbortError") return undefined;
      throw error;
    }
  };
  call.stop = () => running?.abort();
  return call;
}
