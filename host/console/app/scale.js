// The scale of a timeline. Long times in which nothing runs are compressed, so that a wait of a day
// does not hide steps of a second.

import { took } from "./time.js";

/** Compressed times at most. */
const MOST = 6;

/** The part of the width that a compressed time takes. */
const SHARE = 0.1;

/** The part of the width that a label takes. */
const ROOM = 0.15;

/**
 * @typedef {object} Scale
 * @property {(at: number) => number} place from epoch milliseconds to 0..1
 * @property {{ at: number, label: string }[]} ticks
 * @property {{ from: number, to: number, label: string }[]} gaps
 */

/**
 * @param {number} from epoch milliseconds
 * @param {number} to
 * @param {[number, number][]} busy times in which something runs
 * @returns {Scale}
 */
export function scale(from, to, busy) {
  const end = Math.max(to, from + 1);
  const gaps = busy.length > 0 ? idle(from, end, busy) : [];
  // Executions without a length leave nothing between long waits.
  const shown = Math.max(1e-3, end - from - gaps.reduce((sum, [a, b]) => sum + b - a, 0));
  const share = 1 - gaps.length * SHARE;
  /** Stretches of time with their width. @type {{ from: number, to: number, at: number, width: number, gap: boolean }[]} */
  const parts = [];
  let at = 0;
  let time = from;
  const push = (/** @type {number} */ until, /** @type {number} */ width, /** @type {boolean} */ gap) => {
    parts.push({ from: time, to: until, at, width, gap });
    at += width;
    time = until;
  };
  for (const [a, b] of gaps) {
    push(a, ((a - time) / shown) * share, false);
    push(b, SHARE, true);
  }
  push(end, ((end - time) / shown) * share, false);
  const place = (/** @type {number} */ moment) => {
    const part = parts.find((it) => moment <= it.to) ?? parts[parts.length - 1];
    const length = part.to - part.from;
    const inside = length > 0 ? (moment - part.from) / length : 0;
    return Math.min(1, Math.max(0, part.at + Math.min(1, Math.max(0, inside)) * part.width));
  };
  const step = nice(shown / Math.max(1, share * 6));
  const middles = parts.filter((part) => part.gap).map((part) => part.at + part.width / 2);
  /** @type {{ at: number, label: string }[]} */
  const ticks = [];
  for (const part of parts) {
    if (part.gap) continue;
    const first = Math.ceil((part.from - from) / step) * step;
    for (let offset = first; from + offset <= part.to && ticks.length < 40; offset += step) {
      const where = place(from + offset);
      const before = ticks.at(-1);
      // A label needs room beside the others.
      if (where > 0.94) break;
      if (before && where - before.at < ROOM) continue;
      if (middles.some((middle) => Math.abs(middle - where) < ROOM)) continue;
      ticks.push({ at: where, label: offset === 0 ? "0" : took(offset) });
    }
  }
  return {
    place,
    ticks,
    gaps: parts.filter((part) => part.gap).map((part) => ({
      from: part.at,
      to: part.at + part.width,
      label: took(part.to - part.from),
    })),
  };
}

/**
 * The longest idle times, in order, if they are worth compressing.
 * @param {number} from
 * @param {number} to
 * @param {[number, number][]} busy
 * @returns {[number, number][]}
 */
function idle(from, to, busy) {
  const sorted = [...busy].sort((a, b) => a[0] - b[0]);
  /** @type {[number, number][]} */
  const found = [];
  let at = from;
  for (const [a, b] of sorted) {
    if (a > at) found.push([at, a]);
    at = Math.max(at, b);
  }
  if (to > at) found.push([at, to]);
  const whole = to - from;
  found.sort((a, b) => b[1] - b[0] - (a[1] - a[0]));
  const long = found.slice(0, MOST).filter(([a, b]) => b - a > Math.max(2_000, whole * 0.25));
  return long.sort((a, b) => a[0] - b[0]);
}

/**
 * A round number of milliseconds near a number.
 * @param {number} rough
 */
function nice(rough) {
  const bases = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5,
    6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];
  return bases.find((base) => base >= rough) ?? Math.ceil(rough / 864e5) * 864e5;
}
