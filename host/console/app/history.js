// The executions of a run, by node, and the state of each node that follows from them.

import { ms } from "./time.js";

/**
 * @typedef {object} Execution
 * @property {string} no
 * @property {string} node
 * @property {string} first the visit of the node: its attempts and its waits have the same
 * @property {number} attempt
 * @property {string} status
 * @property {string} started
 * @property {number} took_us
 * @property {any} failure
 * @property {string[]} skipped
 * @property {{ list: string, item: number[] }} [scope] the item of a for-each around it
 * @property {number} from epoch milliseconds
 * @property {number} to epoch milliseconds
 *
 * @typedef {object} Trigger
 * @property {string} node
 * @property {string} type
 * @property {string} state
 * @property {string | null} due
 * @property {number} attempt
 * @property {string | null} reason why it is parked
 *
 * @typedef {object} Bar
 * @property {number} from epoch milliseconds
 * @property {number} to
 * @property {string} tone
 * @property {boolean} waits
 * @property {string} title
 * @property {string} [no] the execution
 */

/** Executions that a page keeps; older ones are left out, and the page says so. */
export const MOST = 20_000;

/** A collection of executions that grows, and in which each is once. */
export class History {
  constructor() {
    /** @type {Map<string, Execution>} */
    this.all = new Map();
    /** @type {Map<string, Execution[]>} by the time of their start */
    this.nodes = new Map();
    /** @type {Set<string>} */
    this.skipped = new Set();
    this.from = Infinity;
    this.to = -Infinity;
    /** The newest one. @type {Execution | null} */
    this.last = null;
    this.isFull = false;
  }

  /**
   * Adds executions of the API.
   * @param {any[]} items
   */
  add(items) {
    const changed = new Set();
    for (const item of items) {
      if (this.all.has(item.no)) continue;
      if (this.all.size >= MOST) {
        this.isFull = true;
        break;
      }
      const from = ms(item.started);
      const execution = { ...item, output: undefined, logs: undefined, from, to: from + item.took_us / 1000 };
      this.all.set(item.no, execution);
      const list = this.nodes.get(item.node);
      if (list) list.push(execution);
      else this.nodes.set(item.node, [execution]);
      changed.add(item.node);
      for (const node of item.skipped) this.skipped.add(node);
      this.from = Math.min(this.from, execution.from);
      this.to = Math.max(this.to, execution.to);
      if (!this.last || execution.to >= this.last.to) this.last = execution;
    }
    for (const node of changed) {
      // A timer, a retry and its cause may have the same millisecond: then the attempt decides.
      this.nodes.get(node)?.sort((a, b) => a.from - b.from || a.to - b.to || a.attempt - b.attempt);
    }
    return changed.size > 0;
  }
}

/**
 * The state of each node that has one: from its pending work, or else from its last execution.
 * @param {History} history
 * @param {Trigger[]} triggers
 * @param {{ begun: Map<string, number>, isFinal: boolean }} live
 * @returns {Map<string, { status: string, due: string | null }>}
 */
export function states(history, triggers, { begun, isFinal }) {
  /** @type {Map<string, { status: string, due: string | null }>} */
  const found = new Map();
  for (const node of history.skipped) found.set(node, { status: "skipped", due: null });
  for (const [node, list] of history.nodes) {
    const last = /** @type {Execution} */ (list.at(-1));
    const status = last.status === "suspended" ? "waiting" : last.status;
    found.set(node, { status: isFinal && status === "waiting" ? "cancelled" : status, due: null });
  }
  if (isFinal) return found;
  for (const trigger of triggers) {
    if (!trigger.node) continue;
    const before = found.get(trigger.node)?.status;
    if (trigger.state === "claimed") found.set(trigger.node, { status: "running", due: null });
    else if (before === "running") continue;
    else if (trigger.type === "retry") found.set(trigger.node, { status: "waiting-retry", due: trigger.due });
    else if (trigger.state === "parked" || trigger.type === "timer" || before === "waiting") {
      found.set(trigger.node, { status: "waiting", due: trigger.due });
    } else found.set(trigger.node, { status: "due", due: trigger.due });
  }
  for (const node of begun.keys()) found.set(node, { status: "running", due: null });
  return found;
}

const TONES = /** @type {Record<string, string>} */ ({
  completed: "good",
  failed: "bad",
  "waiting-retry": "warn",
  suspended: "wait",
  cancelled: "idle",
  skipped: "none",
});

/**
 * The bars of a node: its executions, and its waits between them.
 * @param {Execution[]} list by the time of their start
 * @param {{ now: number, isOpen: boolean, running: number | undefined }} live `isOpen`: the last
 *   visit may still wait; `running`: when an execution began that is not over
 * @returns {Bar[]}
 */
export function bars(list, { now, isOpen, running }) {
  /** @type {Bar[]} */
  const found = [];
  /** The last execution of each visit. @type {Map<string, Execution>} */
  const visits = new Map();
  const wait = (/** @type {Execution} */ before, /** @type {number} */ to) => {
    const retries = before.status === "waiting-retry";
    found.push({
      from: before.to,
      to,
      tone: retries ? "warn" : "wait",
      waits: true,
      title: retries ? "waits for its next attempt" : "waits",
    });
  };
  for (const execution of list) {
    const before = visits.get(execution.first);
    if (before && before.to < execution.from) wait(before, execution.from);
    visits.set(execution.first, execution);
    found.push({
      from: execution.from,
      to: execution.to,
      tone: TONES[execution.status] ?? "idle",
      waits: false,
      title: `attempt ${execution.attempt}: ${execution.status}`,
      no: execution.no,
    });
  }
  if (isOpen) {
    for (const last of visits.values()) {
      if (last.status === "suspended" || last.status === "waiting-retry") wait(last, running ?? now);
    }
  }
  if (running !== undefined) {
    found.push({ from: running, to: now, tone: "busy", waits: false, title: "is running" });
  }
  return found;
}
