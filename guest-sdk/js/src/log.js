// `console` writes to the log of the run.

import * as log from "#host/log";
import { current } from "./call.js";
import { text } from "./data.js";
import { readable } from "./trace.js";

/** One value as a text: texts as they are, errors with their stack, all else as JSON. */
export function shown(value) {
  if (typeof value === "string") return value;
  if (value instanceof Error) return readable(value);
  if (typeof value === "object" && value !== null) {
    try {
      return JSON.stringify(value, entries) ?? String(value);
    } catch {
      return String(value);
    }
  }
  return typeof value === "bigint" ? `${value}n` : String(value);
}

function entries(_name, value) {
  if (value instanceof Map) return Object.fromEntries(value);
  if (value instanceof Set) return [...value];
  return value;
}

const line =
  (level) =>
  (...values) => {
    // The module of a plugin is evaluated by the build, which has no log.
    if (current()) log.write(level, text(values.map(shown).join(" ")), []);
  };

export const console = {
  trace: line("trace"),
  debug: line("debug"),
  log: line("info"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
  assert(holds, ...values) {
    if (!holds) console.error("assertion failed:", ...values);
  },
  dir: (value) => console.log(value),
};

/** Writes a line with named values, which the log keeps beside the message. */
export function log_(level, message, fields = {}) {
  if (!current()) return;
  const pairs = Object.entries(fields).map(([name, value]) => [text(name), text(shown(value))]);
  log.write(level, text(message), pairs);
}
