// Answers of an author's function, as the contract has them.

import { encode, encodeOptional, optionalText, text, wide } from "./data.js";
import { Failure } from "./failure.js";
import { Again, Done, Suspend } from "./outcome.js";
import { author, stack } from "./trace.js";

/** The outcome of a node as the contract has it. */
export function outcome(value) {
  if (value instanceof Suspend) {
    const bookmarks = value.bookmarks.map((bookmark) => ({
      name: text(bookmark.name),
      match: encodeOptional(bookmark.match),
      correlation: optionalText(bookmark.correlation),
      private: bookmark.private,
      autoBurn: bookmark.autoBurn,
      metadata: encodeOptional(bookmark.metadata),
      expires: bookmark.expiresAt === undefined ? undefined : wide(bookmark.expiresAt, "expiresAt"),
    }));
    return { tag: "suspend", val: { bookmarks, state: encodeOptional(value.state) } };
  }
  if (value instanceof Again) {
    const after = wide(value.afterMs, "afterMs");
    return { tag: "again", val: { after, state: encodeOptional(value.state) } };
  }
  const [output, ports] = value instanceof Done ? [value.output, value.ports] : [value, []];
  return { tag: "done", val: { output: encode(output), ports: ports.map(text) } };
}

/** The decision of a consumer as the contract has it. */
export function disposition(value) {
  const { decision, vars, afterMs } = value ?? {};
  switch (decision) {
    case "execute":
      return { tag: "execute", val: { vars: encodeOptional(vars) } };
    case "handled":
      return { tag: "handled" };
    case "later":
      return { tag: "later", val: wide(afterMs, "afterMs") };
    case "reject":
      return { tag: "reject", val: failureRecord(value) };
    default:
      throw new TypeError(
        "accept has to return decide.execute(), decide.handled(), decide.later() or decide.reject()",
      );
  }
}

/** A finding of a check as the contract has it. */
export function finding({ level = "error", message, pointer, position }) {
  return {
    tag: level,
    val: { message: text(message), pointer: optionalText(pointer), position: place(position) },
  };
}

function place(position) {
  if (!position) return undefined;
  const { source, line, column = 1 } = position;
  return { source: optionalText(source), line, column };
}

function failureRecord({ message, details, position }) {
  return {
    message: text(message),
    details: encodeOptional(details),
    stack: undefined,
    position: place(position),
  };
}

/** An exception as the class of a failure, with its explanation. */
function explained(error) {
  if (error instanceof Failure) {
    const where = stack(error);
    const details = error.details ?? (error.code && { code: error.code });
    const message = error.message + because(error);
    const { position } = error;
    return [error.class, { ...failureRecord({ message, details, position }), stack: where || undefined }];
  }
  if (!(error instanceof Error)) {
    const thrown = typeof error === "string" ? error : JSON.stringify(error);
    return ["other", failureRecord({ message: `the node threw ${thrown ?? String(error)}` })];
  }
  const position = author(error);
  return [
    "other",
    {
      ...failureRecord({ message: `${error.name}: ${error.message}${because(error)}`, position }),
      stack: stack(error) || undefined,
    },
  ];
}

function because({ cause }) {
  return cause instanceof Error ? `, caused by ${cause.name}: ${cause.message}` : "";
}

/** An exception of a node as the contract has it. */
export function nodeError(error) {
  const [kind, failure] = explained(error);
  if (kind === "cancelled") return { tag: "cancelled" };
  if (kind !== "retryable") return { tag: kind, val: failure };
  const after = error.afterMs === undefined ? undefined : wide(error.afterMs, "afterMs");
  return { tag: "retryable", val: { failure, after } };
}

/** An exception of a consumer as the contract has it. */
export function consumerError(error) {
  const [kind, failure] = explained(error);
  return { tag: kind === "retryable" ? "retryable" : "other", val: failure };
}
