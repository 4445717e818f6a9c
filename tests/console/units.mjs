// The parts of the console that need no browser: `node units.mjs APP`.

import assert from "node:assert/strict";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const app = pathToFileURL(`${process.argv[2]}/`);
const [rails, history, scales, json, form, differ] = await Promise.all(
  ["rails", "history", "scale", "json", "form", "diff"].map((name) => import(new URL(`${name}.js`, app).href)),
);

const names = (file) => rails.rows(file).map((row) => row.name);
const set = { set: {} };

test("edges are read in all their forms", () => {
  const read = rails.edgesOf([
    "a -> b", "a.error -> b", "a.* -> b: x > 1", { "a -> c": "else" }, { from: "a", to: "d", port: "no", when: "y" },
    { "a -> e": true }, 7, null, {},
  ]);
  assert.deepEqual(read, [
    { from: "a", to: "b", port: "done", when: "" },
    { from: "a", to: "b", port: "error", when: "" },
    { from: "a", to: "b", port: "*", when: "x > 1" },
    { from: "a", to: "c", port: "done", when: "else" },
    { from: "a", to: "d", port: "no", when: "y" },
    { from: "a", to: "e", port: "done", when: "" },
  ]);
  assert.deepEqual(read.map(rails.label), ["", "on error", "on any answer, if x > 1", "else", "on no, if y", ""]);
  assert.deepEqual(rails.edgesOf(undefined), []);
});

test("forward edges lead downwards, and backward edges are known", () => {
  const file = { nodes: { d: set, a: set, b: set, c: set }, edges: ["a -> b", "a -> c", "b -> d", "c -> d", "d -> b"] };
  const rows = rails.rows(file);
  assert.equal(rows.length, 4);
  const place = new Map(rows.map((row, at) => [row.name, at]));
  for (const row of rows) {
    for (const edge of row.leaving) {
      assert.equal(place.get(edge.to) > place.get(edge.from), !row.backward.has(edge), `${edge.from} -> ${edge.to}`);
    }
  }
  // One edge of the cycle leads back.
  assert.equal(rows.reduce((sum, row) => sum + row.backward.size, 0), 1);
  // A cycle without an entry, and an empty workflow.
  assert.deepEqual(names({ nodes: { x: set, y: set }, edges: ["x -> y", "y -> x"] }).sort(), ["x", "y"]);
  assert.deepEqual(names({}), []);
  assert.deepEqual(names({ nodes: { start: { set: {}, start: true }, b: set }, edges: ["b -> start"] }).length, 2);
});

test("each rail that leaves a row arrives at the next one", () => {
  const nodes = {};
  const edges = [];
  for (let n = 0; n < 200; n++) {
    nodes[`n${n}`] = n % 17 === 3 ? { "for-each": "x", nodes: { [`i${n}`]: set, [`j${n}`]: set }, edges: [`i${n} -> j${n}`] } : set;
    for (const step of [1, 3, 7]) if (n + step < 200 && (n * step) % 5 !== 0) edges.push(`n${n} -> n${n + step}`);
  }
  const rows = rails.rows({ nodes, edges });
  assert.equal(rows.length, 200 + 2 * 12);
  const shown = (columns) => [...new Set(columns)].filter((column) => column < rails.MOST_COLUMNS).sort((a, b) => a - b);
  for (let at = 0; at + 1 < rows.length; at++) {
    // A rail of a body begins below its node and ends with its last node.
    const plain = (lines, end) => shown(lines.filter((line) => line[2] === rails.PLAIN).map((line) => line[end]));
    assert.deepEqual(plain(rows[at].below, 1), plain(rows[at + 1].above, 0), `${rows[at].name}`);
  }
  assert.deepEqual(rows.at(-1).below.filter((line) => line[2] === rails.PLAIN), []);
});

test("a chain of ten thousand nodes has ten thousand rows in one column", () => {
  const nodes = {};
  const edges = [];
  for (let n = 0; n < 10_000; n++) {
    nodes[`n${n}`] = set;
    if (n > 0) edges.push(`n${n - 1} -> n${n}`);
  }
  const rows = rails.rows({ nodes, edges });
  assert.equal(rows.length, 10_000);
  assert.ok(rows.every((row, at) => row.name === `n${at}` && row.column === 0));
});

const execution = (no, node, status, at, more = {}) => ({
  no: String(no), node, first: node, attempt: 1, status, started: new Date(at).toISOString(), took_us: 1000, failure: null, skipped: [], ...more,
});

test("the history has each execution once, and no more than it may", () => {
  const found = new history.History();
  found.add([execution(2, "a", "completed", 2000), execution(1, "a", "waiting-retry", 1000)]);
  found.add([execution(2, "a", "completed", 2000)]);
  assert.equal(found.all.size, 2);
  assert.deepEqual(found.nodes.get("a").map((it) => it.no), ["1", "2"]);
  assert.deepEqual([found.from, found.to, found.last.no], [1000, 2001, "2"]);
  found.add(Array.from({ length: history.MOST + 10 }, (_, no) => execution(100 + no, "b", "completed", 3000)));
  assert.equal(found.all.size, history.MOST);
  assert.ok(found.isFull);
});

test("a node has the state of its pending work, or of its last execution", () => {
  const found = new history.History();
  found.add([
    execution(1, "done", "completed", 1), execution(2, "bad", "failed", 2), execution(3, "ask", "suspended", 3, { skipped: ["left"] }),
    execution(4, "again", "waiting-retry", 4), execution(5, "busy", "completed", 5),
  ]);
  const trigger = (node, state, type, due = null) => ({ node, state, type, due, attempt: 1 });
  const pending = [
    trigger("ask", "parked", "event"), trigger("again", "pending", "retry", "2030-01-01T00:00:00Z"), trigger("next", "pending", "next"),
    trigger("run", "claimed", "next"), trigger("run", "pending", "next"), trigger(null, "pending", "cancel"),
  ];
  const of = (live) => Object.fromEntries([...history.states(found, pending, live)].map(([node, it]) => [node, it.status]));
  assert.deepEqual(of({ begun: new Map([["busy", 1]]), isFinal: false }), {
    left: "skipped", done: "completed", bad: "failed", ask: "waiting", again: "waiting-retry", busy: "running", next: "due", run: "running",
  });
  // The work of a run that has ended is gone.
  assert.equal(of({ begun: new Map(), isFinal: true }).ask, "cancelled");
  assert.equal(of({ begun: new Map(), isFinal: true }).run, undefined);
});

test("waits are the times between executions of one visit", () => {
  const list = [
    { ...execution(1, "a", "waiting-retry", 0), from: 0, to: 10 },
    { ...execution(2, "a", "completed", 0, { attempt: 2 }), from: 50, to: 60 },
    { ...execution(3, "a", "suspended", 0, { first: "x" }), from: 70, to: 80 },
  ];
  const bars = (live) => history.bars(list, live).map((bar) => [bar.from, bar.to, bar.waits, bar.tone]);
  assert.deepEqual(bars({ now: 100, isOpen: true, running: undefined }), [
    [0, 10, false, "warn"], [10, 50, true, "warn"], [50, 60, false, "good"], [70, 80, false, "wait"], [80, 100, true, "wait"],
  ]);
  assert.deepEqual(bars({ now: 100, isOpen: false, running: undefined }).length, 4);
  assert.deepEqual(bars({ now: 100, isOpen: true, running: 90 }).slice(-2), [[80, 90, true, "wait"], [90, 100, false, "busy"]]);
});

test("a long wait does not hide short steps", () => {
  const day = 86_400_000;
  const { place, gaps, ticks } = scales.scale(0, day + 2000, [[0, 1000], [day, day + 2000]]);
  assert.equal(gaps.length, 1);
  assert.ok(place(1000) - place(0) > 0.2, "the first second is seen");
  let before = -1;
  for (let at = 0; at <= day + 2000; at += day / 500) {
    assert.ok(place(at) >= before && place(at) >= 0 && place(at) <= 1);
    before = place(at);
  }
  assert.equal(place(day + 2000), 1);
  assert.ok(ticks.length > 0 && ticks.every((tick) => tick.at >= 0 && tick.at <= 1));
  // Nothing, one instant, and a wait that still lasts.
  for (const [from, to, busy] of [[0, 0, []], [5, 5, [[5, 5]]], [0, day, [[0, 1]]]]) {
    const { place: at } = scales.scale(from, to, busy);
    assert.ok(Number.isFinite(at(from)) && Number.isFinite(at(to)));
  }
});

test("JSON is written as it was read", () => {
  const value = { a: [1, { b: null }], c: "\u0000<", d: {}, e: [] };
  assert.deepEqual(JSON.parse(json.write(value)), value);
  assert.equal(json.write({ n: new json.Digits("1.10") }), '{\n  "n": 1.10\n}');
  assert.equal(json.line({ a: [1, "x"], b: null }, 80), '{a: [1, "x"], b: null}');
  assert.ok(json.line(Array.from({ length: 100_000 }, (_, n) => n), 80).length <= 81);
});

test("a form has a field for each property, and its values are JSON", () => {
  const fields = form.fields({
    type: "object", required: ["price"],
    properties: { name: { type: "string" }, price: { type: "number" }, size: { enum: ["s", 7, null] }, deep: { $ref: "#/$defs/d" }, loop: { $ref: "#/properties/loop" } },
    $defs: { d: { type: "integer", title: "Deep", default: 3 } },
  });
  const by = Object.fromEntries(fields.map((field) => [field.name, field]));
  assert.equal(fields[0].name, "price");
  assert.deepEqual(fields.map((field) => field.kind), ["number", "text", "choice", "integer", "json"]);
  assert.deepEqual([by.deep.title, by.deep.preset], ["Deep", 3]);
  assert.equal(form.json(by.price, " 1.10 "), "1.10");
  assert.equal(form.json(by.deep, "12345678901234567890"), "12345678901234567890");
  assert.equal(form.json(by.size, "1"), "7");
  assert.equal(form.json(by.name, ""), null);
  assert.equal(form.json(by.name, '"'), '"\\""');
  assert.equal(form.json(by.loop, '{"a": 1.0}'), '{"a": 1.0}');
  for (const [field, typed] of [["price", "1,5"], ["price", "0x1"], ["deep", "1.5"], ["loop", "{"]]) {
    assert.throws(() => form.json(by[field], typed), field);
  }
  for (const schema of [undefined, true, { type: "array" }, { properties: {} }, { $ref: "http://x" }]) assert.equal(form.fields(schema), null);
});

/** What both texts of a difference are. */
const sides = (lines) => [
  lines.filter((line) => line.kind !== "added").map((line) => line.text),
  lines.filter((line) => line.kind !== "removed").map((line) => line.text),
];
const changes = (lines) => lines.filter((line) => line.kind !== "same").length;

test("a difference has both texts, and no more changes than are needed", () => {
  const cases = [
    ["", "", 0], ["abc", "abc", 0], ["abc", "", 3], ["", "abc", 3], ["abcabba", "cbabac", 5], ["axb", "ayb", 2], ["ab", "ba", 2],
  ];
  for (const [a, b, count] of cases) {
    const lines = differ.diff([...a], [...b]);
    assert.deepEqual(sides(lines), [[...a], [...b]], `${a} ${b}`);
    assert.equal(changes(lines), count, `${a} ${b}`);
  }
  // Random texts of few letters, with a generator that repeats.
  let seed = 7;
  const next = (most) => (seed = (seed * 48271) % 2147483647) % most;
  for (let round = 0; round < 300; round++) {
    const [a, b] = [0, 1].map(() => Array.from({ length: next(30) }, () => "abc"[next(3)]));
    // The longest common subsequence, by its definition.
    const table = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
    for (let i = 1; i <= a.length; i++) {
      for (let j = 1; j <= b.length; j++) {
        table[i][j] = a[i - 1] === b[j - 1] ? table[i - 1][j - 1] + 1 : Math.max(table[i - 1][j], table[i][j - 1]);
      }
    }
    const lines = differ.diff(a, b);
    assert.deepEqual(sides(lines), [a, b]);
    assert.equal(changes(lines), a.length + b.length - 2 * table[a.length][b.length], `${a} ${b}`);
    // Beyond its bound it is longer, and still true.
    assert.deepEqual(sides(differ.diff(a, b, 3)), [a, b]);
  }
  const numbers = differ.diff(["a", "x", "b"], ["a", "b", "y"]).map((line) => [line.kind[0], line.before, line.after]);
  assert.deepEqual(numbers, [["s", 1, 1], ["r", 2, null], ["s", 3, 2], ["a", null, 3]]);
});

test("a difference of large texts is bounded", () => {
  const text = (salt) => Array.from({ length: 20_000 }, (_, at) => `${at} ${salt}`);
  const begun = performance.now();
  const lines = differ.diff(text("a"), text("b"));
  assert.equal(changes(lines), 40_000);
  assert.ok(performance.now() - begun < 5_000);
});

test("equal lines far from a change are one line", () => {
  const a = Array.from({ length: 40 }, (_, at) => `${at}`);
  const lines = differ.hunks(differ.diff(a, a.with(20, "x")), 2);
  assert.deepEqual(lines.map((line) => line.kind[0]).join(""), "cssrassc");
  assert.equal(lines[0].text, "18 equal lines");
  assert.deepEqual(differ.hunks(differ.diff(a, a)).map((line) => line.text), ["40 equal lines"]);
  assert.deepEqual(differ.hunks([]), []);
});
