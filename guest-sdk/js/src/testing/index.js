// Runs a node or a consumer by `node --test`, against a fake host in memory.

import { consumerError, disposition, finding, nodeError, outcome } from "../answer.js";
import { begin, end } from "../call.js";
import { Date as HostDate } from "../clock.js";
import { Context } from "../context.js";
import { decode, optional } from "../data.js";
import { Headers, Response, fetch } from "../http.js";
import { console as hostConsole } from "../log.js";
import { enter, leave } from "./world.js";

export { Headers, Response };

function world(options) {
  return {
    runId: "00000000-0000-4000-8000-000000000001",
    workflow: "test",
    nodeId: "node",
    attempt: 1,
    idempotencyKey: "test-key",
    cancelled: false,
    nowMs: 1_700_000_000_000,
    memory: {},
    blobs: {},
    ...options,
    ticks: 0,
    writers: [],
    log: [],
    progress: [],
    requests: [],
    sent: [],
    scheduled: [],
  };
}

/** Globals as a component has them, while a call is under way. */
function globals() {
  const given = { fetch, Headers, Response, console: hostConsole, Date: HostDate };
  for (const name of ["setTimeout", "setInterval", "setImmediate"]) {
    given[name] = () => {
      throw new Error(`${name} does not exist in a plugin: return again({ afterMs }) or suspend({ bookmarks })`);
    };
  }
  const before = Object.fromEntries(Object.keys(given).map((name) => [name, globalThis[name]]));
  Object.assign(globalThis, given);
  return () => Object.assign(globalThis, before);
}

async function within(options, work, fail, read) {
  const here = world(options);
  enter(here);
  const restore = globals();
  begin();
  let report;
  try {
    report = await work();
  } catch (error) {
    const { tag, val } = fail(error);
    const { message = "cancelled", details, position } = val?.failure ?? val ?? {};
    const failure = { class: tag, message, details: optional(details), position, afterMs: val?.after, error };
    report = { tag: "failed", failure };
  } finally {
    end();
    restore();
    leave();
  }
  const { log, progress, requests, sent, scheduled, blobs } = here;
  const said = report.failure ? { outcome: "failed", failure: report.failure } : read(report);
  return { ...said, log, progress, requests, sent, scheduled, blobs };
}

/** A value as it arrives: what JSON does not keep is lost. Integers of any size are kept. */
function arrived(value) {
  if (typeof value === "bigint") return value;
  if (typeof value?.toJSON === "function") return arrived(value.toJSON());
  if (Array.isArray(value)) return value.map((item) => arrived(item) ?? null);
  if (value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype) {
    const kept = Object.entries(value).filter(([, part]) => part !== undefined);
    return Object.fromEntries(kept.map(([name, part]) => [name, arrived(part)]));
  }
  return value;
}

/** Runs a node once. */
export function call(node, { input = null, config = {}, ...options } = {}) {
  return within(
    options,
    async () => outcome(await node.run(arrived(input), new Context(arrived(config)))),
    nodeError,
    (value) => answer(node, value),
  );
}

/** What the node returned; a port or an outcome that its definition does not have fails the test. */
function answer(node, { tag, val }) {
  if (tag !== "done") {
    if (!node.suspends) throw new Error(`the node returns ${tag}, and its definition has no suspends: true`);
    const { state, after, bookmarks } = val;
    const shown = bookmarks?.map(({ match, metadata, ...rest }) => ({
      ...rest,
      match: optional(match),
      metadata: optional(metadata),
    }));
    return { outcome: tag, state: optional(state), afterMs: after, bookmarks: shown };
  }
  const ports = val.ports.length ? val.ports : ["done"];
  const declared = node.ports ?? ["done"];
  for (const port of ports) {
    if (!declared.includes(port)) throw new Error(`the node takes the port ${port}, which it does not declare`);
  }
  return { outcome: "done", output: decode(val.output), ports };
}

/** Offers a trigger to a consumer. */
export function accept(consumer, { kind = "manual", node, payload = {} } = {}, options = {}) {
  return within(
    { nodeId: node, ...options },
    async () => disposition(await consumer.accept({ kind, node, payload: arrived(payload) }, new Context())),
    consumerError,
    ({ tag, val }) => {
      const vars = tag === "execute" ? optional(val.vars) ?? {} : undefined;
      const afterMs = tag === "later" ? val : undefined;
      return { outcome: tag, vars, afterMs, reason: tag === "reject" ? val.message : undefined };
    },
  );
}

/** Checks a configuration; `unknown` has the JSON pointers of members with expressions. */
export function check(node, config, unknown = []) {
  begin();
  try {
    return (node.check?.(arrived(config), unknown) ?? []).map(finding).map(({ tag, val }) => ({ level: tag, ...val }));
  } finally {
    end();
  }
}
