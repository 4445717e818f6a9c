// JSON without loss: a number that JavaScript would round keeps its digits.

/** A number that is not exactly representable here, as its digits. */
export class Digits {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
  }
  toString() {
    return this.source;
  }
}

/** Whether `JSON.parse` tells a reviver the text of a number. */
const exact = (() => {
  let seen = false;
  /** @type {(key: string, value: unknown, context?: { source?: string }) => unknown} */
  const look = (_key, value, context) => {
    seen = context?.source === "1";
    return value;
  };
  JSON.parse("1", /** @type {any} */ (look));
  return seen;
})();

/**
 * @param {string} _key
 * @param {unknown} value
 * @param {{ source?: string }} [context]
 */
function keep(_key, value, context) {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined || String(value) === source) return value;
  return new Digits(source);
}

/**
 * Parses JSON. Where a number would lose digits there is a {@link Digits}.
 * @param {string} text
 * @returns {any}
 */
export function parse(text) {
  return exact ? JSON.parse(text, /** @type {any} */ (keep)) : JSON.parse(text);
}

/**
 * Writes a value of {@link parse} as JSON.
 * @param {unknown} value
 * @param {string} [indent] the white space of the level that encloses the value
 * @returns {string}
 */
export function write(value, indent = "") {
  if (value instanceof Digits) return value.source;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = `${indent}  `;
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((item) => inner + write(item, inner)).join(",\n")}\n${indent}]`;
  }
  const members = Object.entries(value);
  if (members.length === 0) return "{}";
  const lines = members.map(([key, item]) => `${inner}${JSON.stringify(key)}: ${write(item, inner)}`);
  return `{\n${lines.join(",\n")}\n${indent}}`;
}

/**
 * A value on one line, cut after some characters.
 * @param {unknown} value
 * @param {number} most
 */
export function line(value, most) {
  let text = "";
  /** @param {unknown} part */
  const add = (part) => {
    if (text.length > most) return;
    if (part instanceof Digits) text += part.source;
    else if (typeof part === "string") text += JSON.stringify(part.slice(0, most));
    else if (part === null || typeof part !== "object") text += String(part);
    else if (Array.isArray(part)) {
      text += "[";
      for (let at = 0; at < part.length && text.length <= most; at++) {
        if (at > 0) text += ", ";
        add(part[at]);
      }
      text += "]";
    } else {
      text += "{";
      let first = true;
      for (const key in part) {
        if (text.length > most) break;
        text += `${first ? "" : ", "}${key}: `;
        first = false;
        add(/** @type {Record<string, unknown>} */ (part)[key]);
      }
      text += "}";
    }
  };
  add(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
