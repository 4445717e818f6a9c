// Statuses of runs and of nodes: each has a word, a colour and a shape of its own, so that none
// depends on colour.

import { html } from "./html.js";

/**
 * Names by the API, with the word that people see, the tone, and the shape.
 * @type {Record<string, { word: string, tone: string, shape: string }>}
 */
const KNOWN = {
  pending: { word: "Pending", tone: "idle", shape: "ring" },
  running: { word: "Running", tone: "busy", shape: "play" },
  suspended: { word: "Waiting", tone: "wait", shape: "clock" },
  paused: { word: "Paused", tone: "idle", shape: "pause" },
  completed: { word: "Completed", tone: "good", shape: "check" },
  faulted: { word: "Failed", tone: "bad", shape: "cross" },
  cancelled: { word: "Cancelled", tone: "idle", shape: "stop" },
  failed: { word: "Failed", tone: "bad", shape: "cross" },
  "waiting-retry": { word: "Retries", tone: "warn", shape: "again" },
  skipped: { word: "Skipped", tone: "none", shape: "skip" },
  waiting: { word: "Waiting", tone: "wait", shape: "clock" },
  due: { word: "Due", tone: "idle", shape: "ring" },
  node: { word: "Node", tone: "busy", shape: "dot" },
  unreached: { word: "Not reached", tone: "none", shape: "dot" },
};

/** The statuses of a run, in the order of filters. */
export const RUN_STATUSES = [
  "running", "suspended", "pending", "paused", "faulted", "completed", "cancelled",
];

/** @param {string} status */
export const known = (status) => KNOWN[status] ?? { word: status, tone: "idle", shape: "dot" };

/** Whether a run with this status has ended. @param {string} status */
export const isFinal = (status) => ["completed", "faulted", "cancelled"].includes(status);

/** The marks of the shapes, in a box of 16. */
const MARKS = {
  ring: html`<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2" />`,
  dot: html`<circle cx="8" cy="8" r="2.5" fill="currentColor" />`,
  play: html`<circle cx="8" cy="8" r="7" fill="currentColor" /><path d="M6.4 5v6l4.6-3z" fill="var(--paper)" />`,
  clock: html`<circle cx="8" cy="8" r="7" fill="currentColor" /><path d="M8 4.4V8l2.4 1.6" fill="none" stroke="var(--paper)" stroke-width="1.6" stroke-linecap="round" />`,
  pause: html`<circle cx="8" cy="8" r="7" fill="currentColor" /><path d="M6.4 5.4v5.2M9.6 5.4v5.2" stroke="var(--paper)" stroke-width="1.7" />`,
  check: html`<circle cx="8" cy="8" r="7" fill="currentColor" /><path d="m5 8.2 2.1 2.1L11 6.2" fill="none" stroke="var(--paper)" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" />`,
  cross: html`<path d="M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1z" fill="currentColor" /><path d="m5.7 5.7 4.6 4.6m0-4.6-4.6 4.6" stroke="var(--paper)" stroke-width="1.7" stroke-linecap="round" />`,
  stop: html`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="2" /><path d="m3.8 12.2 8.4-8.4" stroke="currentColor" stroke-width="2" />`,
  again: html`<path d="M12.6 5.6A5.4 5.4 0 1 0 13.4 8M13 2.4v3.4H9.6" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" />`,
  skip: html`<path d="M3 8h7M7.6 4.8 10.8 8l-3.2 3.2M13.2 4.4v7.2" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />`,
};

/**
 * The mark of a status.
 * @param {{ status: string }} props
 */
export function Mark({ status }) {
  const { shape, tone } = known(status);
  return html`<svg class=${`mark tone-${tone}`} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
    ${MARKS[/** @type {keyof typeof MARKS} */ (shape)]}
  </svg>`;
}

/**
 * The mark and the word of a status.
 * @param {{ status: string }} props
 */
export function Status({ status }) {
  const { word, tone } = known(status);
  return html`<span class=${`status tone-${tone}`}><${Mark} status=${status} />${word}</span>`;
}
