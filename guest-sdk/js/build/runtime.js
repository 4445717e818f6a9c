// QuickJS as `componentize-qjs` has it, with neither clock nor chance.
//
// The engine asks for a seed and for the time when it starts, which is while a component is built,
// and both stay in the memory that becomes the component. So two builds of the same source would
// differ. Here those three imports lead to functions of the same signatures whose answers are always
// the same. The component itself has no WASI: `Date` and `Math.random` ask the host.

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

/** A module that is linked dynamically begins with these bytes. */
const BEGIN = Buffer.from("\0asm\x01\0\0\0\0\x12\x08dylink.0", "latin1");
const HEAD = 8;

/** The sections of a module: the imports, and the largest. */
const IMPORTS = 2;
const LAST = 13;

const ENVIRONMENT = "wasi:cli/environment@0.2.0";
const CLOCK = "wasi:clocks/monotonic-clock@0.2.0";
/** The imports, and what replaces each: the toolchain gives no arguments and no directory. */
const CONSTANT = new Map([
  ["wasi:random/insecure-seed@0.2.9 insecure-seed", [ENVIRONMENT, "get-arguments"]],
  ["wasi:clocks/wall-clock@0.2.0 now", [ENVIRONMENT, "initial-cwd"]],
  [`${CLOCK} now`, [CLOCK, "resolution"]],
]);

/** What asynchronous engines import. */
const ASYNCHRONOUS = "$root";

/**
 * The smallest synchronous engine in the toolchain, whose file `program` is loaded; undefined if it
 * has none with these imports.
 */
export async function runtime(program) {
  const loaded = Object.keys(createRequire(program).cache);
  const addon = loaded.find((file) => file.includes("componentize-qjs") && file.endsWith(".node"));
  const bytes = addon && (await readFile(addon));
  let found;
  for (let at = bytes?.indexOf(BEGIN) ?? -1; at >= 0; at = bytes.indexOf(BEGIN, at + 1)) {
    const made = constant(bytes, at);
    if (made && made.length < (found?.length ?? Infinity)) found = made;
  }
  return found;
}

/** The module at a place of a file, with its imports replaced; undefined if it has others. */
function constant(bytes, begin) {
  const reader = new Reader(bytes, begin + HEAD);
  const parts = [bytes.subarray(begin, reader.at)];
  while (reader.at < bytes.length) {
    const from = reader.at;
    const id = reader.byte();
    const size = reader.number();
    const body = reader.at;
    // A custom section has a name. Anything else is behind the module.
    if (id > LAST || size === 0 || (id === 0 && reader.number() >= size)) break;
    reader.at = body + size;
    if (id === IMPORTS) {
      const section = imports(new Reader(bytes, body));
      if (!section) return undefined;
      parts.push(Buffer.from([IMPORTS, ...number(section.length)]), section);
    } else {
      parts.push(bytes.subarray(from, reader.at));
    }
  }
  return Buffer.concat(parts);
}

/** Each import keeps its place, so no other section changes. */
function imports(reader) {
  const count = reader.number();
  const parts = [Buffer.from(number(count))];
  let replaced = 0;
  for (let index = 0; index < count; index++) {
    const name = [reader.name(), reader.name()];
    if (name[0] === ASYNCHRONOUS) return undefined;
    const other = CONSTANT.get(name.join(" "));
    if (other) replaced += 1;
    for (const text of other ?? name) {
      parts.push(Buffer.from(number(Buffer.byteLength(text))), Buffer.from(text));
    }
    const begin = reader.at;
    reader.type();
    parts.push(reader.bytes.subarray(begin, reader.at));
  }
  return replaced === CONSTANT.size ? Buffer.concat(parts) : undefined;
}

/** Reads parts of a module. */
class Reader {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }

  byte() {
    return this.bytes[this.at++];
  }

  /** An unsigned number of 32 bits in LEB128. */
  number() {
    let value = 0;
    for (let scale = 1, byte = 128; byte >= 128 && scale < 2 ** 35; scale *= 128) {
      byte = this.byte();
      value += (byte & 127) * scale;
    }
    return value;
  }

  name() {
    const size = this.number();
    this.at += size;
    return this.bytes.toString("utf8", this.at - size, this.at);
  }

  /** Skips the type of an import. */
  type() {
    const kind = this.byte();
    if (kind === 0) return void this.number(); // A function.
    if (kind === 3) return void (this.at += 2); // A global: its type, and whether it changes.
    if (kind === 1) this.byte(); // A table: the type of its elements; then, as a memory, limits.
    const hasMaximum = this.byte() & 1;
    this.number();
    if (hasMaximum) this.number();
  }
}

function number(value) {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) + 128);
  return [...bytes, value];
}
