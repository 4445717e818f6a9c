// Outcomes of a node other than a plain output.

export class Done {
  constructor(output, ports) {
    this.output = output;
    this.ports = ports;
  }
}

export class Suspend {
  constructor(bookmarks, state) {
    this.bookmarks = bookmarks;
    this.state = state;
  }
}

export class Again {
  constructor(afterMs, state) {
    this.afterMs = afterMs;
    this.state = state;
  }
}

/** Finished, with this output, by these ports; without a port, by `done`. */
export function done(output, ...ports) {
  return new Done(output, ports);
}

/** Waits until one of the bookmarks is resumed or expires. */
export function suspend({ bookmarks, state }) {
  return new Suspend(bookmarks, state);
}

/** Asks to be called again after `afterMs` milliseconds, with this state. */
export function again({ afterMs, state }) {
  return new Again(afterMs, state);
}

/** Decisions of a consumer about a trigger. */
export const decide = {
  /** Assign these members to `vars`, then execute the node or start the workflow. */
  execute: (vars) => ({ decision: "execute", vars }),
  /** The trigger is finished. */
  handled: () => ({ decision: "handled" }),
  /** Offer the trigger again after `afterMs` milliseconds. */
  later: (afterMs) => ({ decision: "later", afterMs }),
  /** The trigger becomes a dead letter with this reason. */
  reject: (message, options) => ({ decision: "reject", message, ...options }),
};
