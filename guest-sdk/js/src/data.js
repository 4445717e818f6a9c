// Values on their way between JavaScript and the contract.

import { Failure } from "./failure.js";

/** A value of another media type than JSON: `text` or `bytes` has the content. */
export class Raw {
  constructor(contentType, content) {
    this.contentType = contentType;
    if (typeof content === "string") this.text = content;
    else this.bytes = content;
  }
}

/** A value that stays in the blob store of the host; `blobs` reads ranges of it. */
export class Blob {
  constructor(reference, contentType) {
    this.reference = reference;
    this.contentType = contentType;
  }
}

/** A text of a host call or a payload: lone surrogates have no form in UTF-8. */
export function text(value) {
  return String(value).toWellFormed();
}

// The build says how the engine takes 64 bits.
const u64 = typeof WINDLASS_U64 === "undefined" ? Number : WINDLASS_U64;

/** A number of milliseconds or bytes of 64 bits, as the contract takes it. */
export function wide(value, what) {
  return u64(whole(value, what));
}

/** A number of at most 32 bits. */
export function whole(value, what) {
  const number = value instanceof Date ? value.getTime() : Number(value);
  if (!(number >= 0 && number <= Number.MAX_SAFE_INTEGER)) {
    throw new Failure("other", `${what} is ${value}: it has to be a number from 0 to 2^53 - 1`);
  }
  return Math.round(number);
}

/** UTF-8 to text; bytes that are not UTF-8 throw. */
export function utf8(bytes) {
  let latin = "";
  for (let at = 0; at < bytes.length; at += 4096) {
    latin += String.fromCharCode.apply(null, bytes.subarray(at, at + 4096));
  }
  return decodeURIComponent(escape(latin));
}

/** How many digits an integer has at least that a number cannot hold. */
const DIGITS = 16;
const LONG_NUMBER = /\d{16}/;

/** JSON to a value. An integer that a number cannot hold becomes a BigInt. */
export function parse(json) {
  const isLong = json.length >= DIGITS && LONG_NUMBER.test(json);
  return isLong ? JSON.parse(json, exact) : JSON.parse(json);
}

function exact(_name, value, context) {
  const isWide = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return isWide && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}

/** A value to a payload; `undefined` becomes `null`. */
export function encode(value) {
  if (value instanceof Raw) {
    const body =
      value.text === undefined
        ? { tag: "inline", val: asBytes(value.bytes) }
        : { tag: "text", val: text(value.text) };
    return { contentType: text(value.contentType), body };
  }
  if (value instanceof Blob) {
    const contentType = value.contentType === undefined ? undefined : text(value.contentType);
    return { contentType, body: { tag: "blob", val: text(value.reference) } };
  }
  const json = JSON.stringify(value);
  return { contentType: undefined, body: { tag: "text", val: json === undefined ? "null" : json } };
}

/** A payload to a value. */
export function decode({ contentType, body }) {
  if (body.tag === "blob") return new Blob(body.val, contentType ?? undefined);
  if (contentType && !/^application\/json\b/.test(contentType)) return new Raw(contentType, body.val);
  return parse(body.tag === "text" ? body.val : utf8(body.val));
}

/** As `decode`, of a payload that may be absent. */
export function optional(payload) {
  return payload === undefined || payload === null ? undefined : decode(payload);
}

/** As `encode`, of a value that may be absent. */
export function encodeOptional(value) {
  return value === undefined ? undefined : encode(value);
}

/** A text that may be absent. */
export function optionalText(value) {
  return value === undefined || value === null ? undefined : text(value);
}

/** The bytes of a buffer or a view of one. */
export function asBytes(value) {
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw new TypeError("bytes have to be a Uint8Array or an ArrayBuffer");
}
