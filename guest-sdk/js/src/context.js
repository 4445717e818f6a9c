// The context of a call. Each member asks the host when it is read.

import * as host from "#host/context";
import { need } from "./call.js";
import { decode, optional, text } from "./data.js";

/** The context of the current call; `index.d.ts` documents its members. */
export class Context {
  constructor(config) {
    this.config = config;
  }

  get deadlineMs() {
    return Number(ask("deadline"));
  }

  get resumption() {
    const call = ask("resumption");
    if (!call) return undefined;
    const { reason, phase, state } = call;
    const resumed = { reason: reason.tag, phase, state: optional(state) };
    if (reason.tag === "resumed") {
      resumed.bookmark = reason.val.bookmark;
      resumed.input = decode(reason.val.input);
      resumed.metadata = optional(reason.val.metadata);
    } else if (reason.tag === "expired") {
      resumed.bookmark = reason.val;
    } else if (reason.tag === "other") {
      resumed.reason = reason.val;
    }
    return resumed;
  }

  resumeToken(bookmark) {
    need("resumeToken");
    return host.resumeToken(text(bookmark)) ?? undefined;
  }

  progress(fraction, note = "") {
    need("progress");
    host.progress(Number(fraction), text(note));
  }
}

function ask(name) {
  need(`ctx.${name}`);
  return host[name]() ?? undefined;
}

for (const name of [
  "runId",
  "workflow",
  "nodeId",
  "triggerId",
  "attempt",
  "idempotencyKey",
  "correlationId",
  "traceParent",
  "cancelled",
]) {
  Object.defineProperty(Context.prototype, name, { get: () => ask(name) });
}
