// Number formatting.

const WHOLE = new Intl.NumberFormat("en");

export const whole = (number) => WHOLE.format(number);

/** Format with three significant digits: 0.0364, 1.28, 213. */
export function short(number) {
  if (number === null || number === undefined || !Number.isFinite(number)) return "–";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (size >= 1000 || size < 0.0001) return number.toExponential(1);
  return String(Number(number.toPrecision(3)));
}

/** Format a share as percent; a small share above 0 is never shown as 0 %. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = 100 * share;
  if (value > 0 && value < 1) return "<1 %";
  return `${Math.round(value)} %`;
}

export function time(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  const milliseconds = 1000 * seconds;
  if (milliseconds < 0.1) return "<0.1 ms";
  return `${milliseconds >= 10 ? Math.round(milliseconds) : milliseconds.toFixed(1)} ms`;
}

/** Format a rank, or say that it is beyond the ranks that are known; `depth` has them for both lists. */
export const rank = (number, side, depth) =>
  number ? whole(number) : depth[side] < depth.items ? `${whole(depth[side])}+` : "–";

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;
