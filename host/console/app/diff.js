// The difference of two texts, by lines: Myers' algorithm ("An O(ND) Difference Algorithm and Its
// Variations", 1986) with a bound of its work. Beyond the bound the part that differs is shown as
// removed and added as a whole, which is true and less helpful.

/** The most edits that are searched for. */
const MOST_EDITS = 1_500;

/** Lines around a change that are shown. */
const CONTEXT = 3;

/**
 * @typedef {object} Line
 * @property {"same" | "removed" | "added" | "cut"} kind
 * @property {string} text
 * @property {number | null} before its number in the first text, from 1
 * @property {number | null} after its number in the second text
 */

/**
 * The edits from one list of lines to another: for each line whether it stays, goes or comes.
 * @param {string[]} a
 * @param {string[]} b
 * @param {number} [most] edits
 * @returns {Line[]}
 */
export function diff(a, b, most = MOST_EDITS) {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  /** @type {Line[]} */
  const found = [];
  let [before, after] = [0, 0];
  const add = (/** @type {Line["kind"]} */ kind) => {
    if (kind === "removed") found.push({ kind, text: a[before], before: ++before, after: null });
    else if (kind === "added") found.push({ kind, text: b[after], before: null, after: ++after });
    else found.push({ kind, text: a[before], before: ++before, after: ++after });
  };
  for (let at = 0; at < head; at++) add("same");
  for (const kind of edits(a.slice(head, a.length - tail), b.slice(head, b.length - tail), most)) add(kind);
  for (let at = 0; at < tail; at++) add("same");
  return found;
}

/**
 * @param {string[]} a
 * @param {string[]} b
 * @param {number} most
 * @returns {Line["kind"][]}
 */
function edits(a, b, most) {
  const whole = () => [...a.map(() => /** @type {const} */ ("removed")), ...b.map(() => /** @type {const} */ ("added"))];
  const bound = Math.min(a.length + b.length, most);
  /** The furthest position in `a` on each diagonal, before each step. @type {Int32Array[]} */
  const trace = [];
  const ends = new Int32Array(2 * bound + 3);
  const middle = bound + 1;
  for (let step = 0; step <= bound; step++) {
    // Only the diagonals that this step may leave are kept.
    trace.push(ends.slice(middle - step - 1, middle + step + 2));
    for (let k = -step; k <= step; k += 2) {
      const down = k === -step || (k !== step && ends[middle + k - 1] < ends[middle + k + 1]);
      let x = down ? ends[middle + k + 1] : ends[middle + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x++;
      ends[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return back(trace, a.length, b.length);
    }
  }
  return whole();
}

/**
 * The way back through the steps.
 * @param {Int32Array[]} trace
 * @param {number} x
 * @param {number} y
 */
function back(trace, x, y) {
  /** @type {Line["kind"][]} */
  const found = [];
  for (let step = trace.length - 1; step > 0; step--) {
    const ends = trace[step];
    const at = (/** @type {number} */ k) => ends[k + step + 1];
    const k = x - y;
    const down = k === -step || (k !== step && at(k - 1) < at(k + 1));
    const from = down ? k + 1 : k - 1;
    const [fromX, fromY] = [at(from), at(from) - from];
    while (x > fromX && y > fromY) {
      found.push("same");
      x--;
      y--;
    }
    found.push(down ? "added" : "removed");
    x = fromX;
    y = fromY;
  }
  for (; x > 0; x--) found.push("same");
  return found.reverse();
}

/**
 * The lines with changes and some around them; what is left out is one line.
 * @param {Line[]} lines
 * @param {number} [context]
 * @returns {Line[]}
 */
export function hunks(lines, context = CONTEXT) {
  const near = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind !== "same") near.fill(1, Math.max(0, at - context), Math.min(lines.length, at + context + 1));
  });
  /** @type {Line[]} */
  const found = [];
  for (let at = 0; at < lines.length; at++) {
    if (near[at]) {
      found.push(lines[at]);
      continue;
    }
    let end = at;
    while (end < lines.length && !near[end]) end++;
    const count = end - at;
    found.push({ kind: "cut", text: `${count} equal ${count === 1 ? "line" : "lines"}`, before: null, after: null });
    at = end - 1;
  }
  return found;
}
