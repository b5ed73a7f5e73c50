// Reader for vector files (.npy, .json, .csv, .txt): returns the first vector, or throws an Error with a message.

const HEAD = 65_536; // bytes; the header of every .npy file that numpy writes fits
const MOST = 32 * 2 ** 20; // bytes of a file that must be read completely
const KINDS = {
  f2: [2, half],
  f4: [4, (view, at, little) => view.getFloat32(at, little)],
  f8: [8, (view, at, little) => view.getFloat64(at, little)],
  i1: [1, (view, at) => view.getInt8(at)],
  u1: [1, (view, at) => view.getUint8(at)],
  i2: [2, (view, at, little) => view.getInt16(at, little)],
  u2: [2, (view, at, little) => view.getUint16(at, little)],
  i4: [4, (view, at, little) => view.getInt32(at, little)],
  u4: [4, (view, at, little) => view.getUint32(at, little)],
  i8: [8, (view, at, little) => Number(view.getBigInt64(at, little))],
};

/** Read the first vector of a File. */
export async function vectorIn(file) {
  const kind = file.name.toLowerCase().match(/\.([a-z0-9]+)$/)?.[1] ?? "";
  if (kind === "npy") return checked(await npy(file), file.name);
  if (!["json", "csv", "tsv", "txt"].includes(kind)) {
    throw new Error(`${file.name} is not a file of vectors that this page reads; give .npy, .json, .csv or .txt.`);
  }
  if (file.size > MOST) throw new Error(`${file.name} is larger than 32 MB; give one query vector.`);
  const text = await file.text();
  return checked(kind === "json" ? fromJson(text, file.name) : fromText(text, file.name), file.name);
}

function checked(numbers, name) {
  if (!numbers.length) throw new Error(`${name} holds no numbers; give one vector.`);
  const wrong = numbers.findIndex((number) => !Number.isFinite(Math.fround(number)));
  if (wrong >= 0)
    throw new Error(`${name} has ${numbers[wrong]} at place ${wrong + 1}; a vector needs finite numbers.`);
  if (numbers.every((number) => number === 0)) throw new Error(`${name} holds only zeros, which have no direction.`);
  return numbers;
}

/** Read the first row of an array (d,) or (n, d). Only the header and that row are read, whatever the file size. */
async function npy(file) {
  const head = new DataView(await file.slice(0, HEAD).arrayBuffer());
  const broken = new Error(`${file.name} is not a complete .npy file; write it again with numpy.save.`);
  if (head.byteLength < 12 || head.getUint32(0) !== 0x934e554d) throw broken;
  const wide = head.getUint8(6) >= 2;
  const length = wide ? head.getUint32(8, true) : head.getUint16(8, true);
  const start = (wide ? 12 : 10) + length;
  if (start > head.byteLength) throw broken;
  const words = new TextDecoder("latin1").decode(new Uint8Array(head.buffer, wide ? 12 : 10, length));
  const type = words.match(/'descr':\s*'([<>|=]?)([a-z]\d+)'/);
  const shape = words
    .match(/'shape':\s*\(([^)]*)\)/)?.[1]
    .split(",")
    .filter((part) => part.trim())
    .map(Number);
  if (!type || !shape || !(type[2] in KINDS)) {
    throw new Error(`${file.name} holds ${type ? type[2] : "objects"}; give an array of float32, float64 or float16.`);
  }
  if (shape.length < 1 || shape.length > 2 || shape.includes(0)) {
    throw new Error(`${file.name} has shape (${shape.join(", ")}); give one vector (d,) or rows (n, d).`);
  }
  const rows = shape.length === 2 ? shape[0] : 1,
    width = shape.at(-1);
  const columns = /'fortran_order':\s*True/.test(words) && rows > 1; // then a row is spread over the whole file
  const [bytes, read] = KINDS[type[2]];
  const stride = columns ? rows * bytes : bytes;
  const size = (width - 1) * stride + bytes;
  if (size > MOST) throw new Error(`${file.name} is too large to read here; save one query vector.`);
  const view = new DataView(await file.slice(start, start + size).arrayBuffer());
  if (view.byteLength < size) throw broken;
  return Array.from({ length: width }, (_, place) => read(view, place * stride, type[1] !== ">"));
}

/** Decode a 16-bit IEEE float. */
function half(view, at, little) {
  const bits = view.getUint16(at, little);
  const sign = bits >> 15 ? -1 : 1,
    power = (bits >> 10) & 31,
    rest = bits & 1023;
  if (power === 31) return rest ? NaN : sign * Infinity;
  return sign * (power ? 2 ** (power - 15) * (1 + rest / 1024) : 2 ** -14 * (rest / 1024));
}

/** Read a list of numbers, a list of such lists, or an object with such a list under a common key. */
function fromJson(text, name) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON; give a list of numbers.`);
  }
  for (const key of ["vector", "embedding", "values", "vectors", "query"]) {
    if (!Array.isArray(found)) found = found?.[key] ?? found;
  }
  if (Array.isArray(found?.[0])) found = found[0];
  if (!Array.isArray(found) || !found.every((one) => typeof one === "number")) {
    throw new Error(`${name} holds something other than numbers; give a list such as [0.1, -0.2, 0.3].`);
  }
  return found;
}

/** Read the first line that contains only numbers, or all lines if each has one number. */
function fromText(text, name) {
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.split(/[\s,;]+/).filter(Boolean))
    .filter((line) => line.length);
  const rows = lines.map((line) => line.map(Number)).filter((line) => line.every((number) => !Number.isNaN(number)));
  if (!rows.length) throw new Error(`${name} has no line of numbers; give them separated by commas or spaces.`);
  return rows.every((row) => row.length === 1) ? rows.flat() : rows[0];
}
