// Random numbers of the host. The build freezes the state of the engine, so its own `Math.random`
// would give the same numbers in every instance.

import * as host from "#host/random";
import { current } from "./call.js";

/** This many unpredictable bytes, fit for keys. */
export function randomBytes(length) {
  const bytes = new Uint8Array(length);
  if (!current()) return bytes;
  for (let at = 0; at < length; ) {
    const part = host.bytes(Math.min(length - at, 65536));
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

let seeded = -1;
let a = 0x9e3779b9;
let b = 0x243f6a88;
let c = 0xb7e15162;
let d = 1;

/** A number from 0 to below 1: sfc32, seeded by the host at the first use in each call. */
export function mathRandom() {
  if (seeded !== current()) {
    seeded = current();
    const seed = new DataView(randomBytes(12).buffer);
    [a, b, c, d] = [seed.getUint32(0), seed.getUint32(4), seed.getUint32(8), 1];
    for (let round = 0; round < 12; round++) next();
  }
  return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992;
}

function next() {
  const sum = (a + b + d) | 0;
  d = (d + 1) | 0;
  a = b ^ (b >>> 9);
  b = (c + (c << 3)) | 0;
  c = ((c << 21) | (c >>> 11)) + sum;
  c |= 0;
  return sum;
}

const hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export const crypto = {
  getRandomValues(array) {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    bytes.set(randomBytes(bytes.length));
    return array;
  },
  randomUUID() {
    const bytes = randomBytes(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    return hex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  },
};
