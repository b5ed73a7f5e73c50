// A question to the service -> its JSON answer, or a Problem that says in a sentence why there is none.

export class Problem extends Error {
  constructor(words, status = 0) {
    super(words);
    this.status = status;
  }
}

const BIG = /[[:,]\s*-?\d{16,}\s*[,\]}]/; // ids may be whole numbers that a JavaScript number would round

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

/** The answer to GET, or to POST where there is a body. Addresses are relative: the page may live under any path. */
export async function ask(path, body, signal) {
  const asked =
    body === undefined
      ? { signal }
      : { method: "POST", headers: { "Content-Type": "application/json" }, body: written(body), signal };
  let response, text;
  try {
    response = await fetch(path, asked);
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
  if (typeof detail !== "string" || !detail) return `The service answered with status ${status}, and did not say why.`;
  const words = detail[0].toUpperCase() + detail.slice(1);
  return /[.!?]$/.test(words) ? words : `${words}.`;
}

/**
 * Only the newest question counts: `work(signal, ...given)` is aborted when it is asked again, and an answer that comes
 * too late is `undefined`.
 */
export function latest(work) {
  let running = null;
  const asked = async (...given) => {
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
  asked.stop = () => running?.abort();
  return asked;
}
