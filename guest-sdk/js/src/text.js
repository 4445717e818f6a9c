// `TextEncoder` and `TextDecoder` of UTF-8.

import { asBytes, utf8 } from "./data.js";

export class TextEncoder {
  encoding = "utf-8";

  encode(value = "") {
    const latin = unescape(encodeURIComponent(String(value).toWellFormed()));
    const bytes = new Uint8Array(latin.length);
    for (let at = 0; at < latin.length; at++) bytes[at] = latin.charCodeAt(at);
    return bytes;
  }

  encodeInto(value, into) {
    let read = 0;
    let written = 0;
    for (const char of String(value)) {
      const bytes = this.encode(char);
      if (written + bytes.length > into.length) break;
      into.set(bytes, written);
      written += bytes.length;
      read += char.length;
    }
    return { read, written };
  }
}

export class TextDecoder {
  #pending = new Uint8Array();

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^(unicode-1-1-)?utf-?8$/i.test(label)) {
      throw new RangeError(`a plugin decodes UTF-8 only, and not ${label}`);
    }
    Object.assign(this, { encoding: "utf-8", fatal, ignoreBOM });
  }

  decode(input, { stream = false } = {}) {
    let bytes = input === undefined ? new Uint8Array() : asBytes(input);
    if (this.#pending.length) {
      const joined = new Uint8Array(this.#pending.length + bytes.length);
      joined.set(this.#pending);
      joined.set(bytes, this.#pending.length);
      bytes = joined;
    }
    const whole = stream ? bytes.length - cut(bytes) : bytes.length;
    this.#pending = bytes.slice(whole);
    const found = this.#text(bytes.subarray(0, whole));
    return this.ignoreBOM ? found : found.replace(/^\uFEFF/, "");
  }

  #text(bytes) {
    try {
      return utf8(bytes);
    } catch {
      if (this.fatal) throw new TypeError("the bytes are not UTF-8");
      return replaced(bytes);
    }
  }
}

/** How many bytes at the end begin a character that is not whole. */
function cut(bytes) {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back];
    if (byte >= 0xc0) return size(byte) > back ? back : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

const size = (lead) => (lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1);

/** Bytes that are no UTF-8 become U+FFFD. */
function replaced(bytes) {
  let found = "";
  for (let at = 0; at < bytes.length; ) {
    const length = size(bytes[at]);
    let char;
    try {
      char = utf8(bytes.subarray(at, at + length));
      at += length;
    } catch {
      char = "\uFFFD";
      at += 1;
    }
    found += char;
  }
  return found;
}
