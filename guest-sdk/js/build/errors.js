// What can go wrong, and the exit code that says so.

/** The program was called wrongly. */
export const USAGE = 2;
/** The plugin has mistakes, which are printed. */
export const MISTAKES = 1;
/** A tool is missing; the message has the line that installs it. */
export const MISSING = 3;

/** An error for people: one mistake a line, each with its place in front. */
export class BuildError extends Error {
  constructor(messages, code = MISTAKES) {
    const all = Array.isArray(messages) ? messages : [messages];
    super(all.join("\n"));
    this.messages = all;
    this.code = code;
  }
}

/** A mistake with its place, as editors and terminals link it. */
export function at(file, line, column, text) {
  return `${file}:${line}:${column}: ${text}`;
}
