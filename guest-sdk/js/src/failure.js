// Failures: what a node throws to say whether a retry makes sense.

/** A failure with a class. Retry policies and `on-error` of a workflow choose by the class. */
export class Failure extends Error {
  constructor(kind, message, { details, position, afterMs, code, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "Failure";
    /** `invalid`, `retryable`, `permanent`, `cancelled` or `other`. */
    this.class = kind;
    /** The code of an error of the host, such as `http.denied`. */
    this.code = code;
    /** Data for conditions and programs: JSON of at most 16 KiB. */
    this.details = details;
    /** A position in a text of the configuration: `{ line, column, source? }`, from 1. */
    this.position = position;
    /** The delay in milliseconds after which a retry makes sense. */
    this.afterMs = afterMs;
  }
}

export const failure = {
  /** The configuration or the input is wrong: a retry is useless. */
  invalid: (message, options) => new Failure("invalid", message, options),
  /** A retry may succeed; `afterMs` says when. */
  retryable: (message, options) => new Failure("retryable", message, options),
  /** A retry cannot succeed. */
  permanent: (message, options) => new Failure("permanent", message, options),
  /** The node noticed that it was cancelled. */
  cancelled: () => new Failure("cancelled", "cancelled"),
};

/** An error of the host as a failure. `map` has, for each case, the class and the sentence. */
export function hostError(what, area, thrown, map) {
  // The toolchain throws the error value itself, or wraps it as `payload`.
  const error = thrown?.payload ?? thrown;
  if (typeof error?.tag !== "string") {
    return thrown instanceof Error ? thrown : new Failure("other", `${what}: ${String(thrown)}`);
  }
  const [kind, sentence] = map[error.tag] ?? ["other", "failed"];
  const detail = error.val === undefined || error.val === null ? "" : `: ${error.val}`;
  return new Failure(kind, `${what} ${sentence}${detail}`, { code: `${area}.${error.tag}` });
}
