// Parts of the SDK that a component has in place of the engine's.

import assert from "node:assert/strict";
import test from "node:test";
import { begin, end } from "../src/call.js";
import { encode, parse, utf8, whole } from "../src/data.js";
import { nodeName } from "../src/define.js";
import { Promise as Settled, settle } from "../src/promise.js";
import { TextDecoder as Decoder, TextEncoder as Encoder } from "../src/text.js";
import { frames } from "../src/trace.js";

test("names of exports become names of nodes", () => {
  assert.deepEqual(["sum", "toUpper", "sha256Hash", "a_b"].map(nodeName), ["sum", "to-upper", "sha256-hash", "a-b"]);
});

test("text has no lone surrogates and durations are whole", () => {
  assert.equal(encode("\ud800").body.val, '"\\ud800"');
  assert.deepEqual([whole(1.4, "it"), whole(new Date(7), "it")], [1, 7]);
  for (const wrong of [-1, NaN, 2 ** 60, "x"]) assert.throws(() => whole(wrong, "it"), /from 0 to 2\^53/);
  assert.equal(encode(undefined).body.val, "null");
});

test("JSON of common numbers stays numbers", () => {
  assert.deepEqual(parse('{"a":9007199254740991,"b":1e30,"c":"12345678901234567"}'), {
    a: 9007199254740991,
    b: 1e30,
    c: "12345678901234567",
  });
});

const texts = ["", "plain", "héllo 🎉", "\u0000\uffff", "x".repeat(10000) + "é"];

test("the encoder and the decoder agree with those of Node", () => {
  for (const text of texts) {
    const bytes = new Encoder().encode(text);
    assert.deepEqual(Buffer.from(bytes), Buffer.from(text));
    assert.equal(new Decoder().decode(bytes), text);
    assert.equal(utf8(bytes), text);
  }
  for (const bytes of [[0xff, 0x41], [0xe2, 0x82], [0x41, 0xc3, 0x28], [0xef, 0xbb, 0xbf, 0x41]]) {
    const given = new Uint8Array(bytes);
    const expected = new TextDecoder().decode(given);
    assert.equal(new Decoder().decode(given).replaceAll("\ufffd\ufffd", "\ufffd"), expected.replaceAll("\ufffd\ufffd", "\ufffd"));
  }
  assert.throws(() => new Decoder("utf-8", { fatal: true }).decode(new Uint8Array([0xff])), TypeError);
  assert.throws(() => new Decoder("latin1"), RangeError);
});

test("a stream of bytes is decoded over its cuts", () => {
  const bytes = new Encoder().encode("aé🎉z");
  for (let cut = 0; cut <= bytes.length; cut++) {
    const decoder = new Decoder();
    const first = decoder.decode(bytes.subarray(0, cut), { stream: true });
    assert.equal(first + decoder.decode(bytes.subarray(cut)), "aé🎉z");
  }
});

test("encodeInto stops at whole characters", () => {
  const into = new Uint8Array(4);
  assert.deepEqual(new Encoder().encodeInto("aé🎉", into), { read: 2, written: 3 });
});

test("promises settle within the call", () => {
  begin();
  try {
    assert.equal(settle(Settled.resolve(1).then((it) => it + 1)), 2);
    const all = Settled.all([1, Settled.resolve(2), new Settled((done) => done(3))]);
    assert.deepEqual(settle(all), [1, 2, 3]);
    assert.throws(() => settle(Settled.reject(new Error("no"))), /no/);
    assert.throws(() => settle(new Settled(() => {})), /never settled.*return again/);
    const { promise, resolve } = Settled.withResolvers();
    resolve(4);
    assert.equal(settle(promise), 4);
  } finally {
    end();
  }
});

test("stacks of both engines are read", () => {
  const of = (stack) => frames({ stack }).map(({ name, source, line, column }) => [name, source, line, column]);
  assert.deepEqual(of("    at boom (/a.js:2:20)\n    at map (native)\n    at <anonymous> (/a.js:8:48)\n"), [
    ["boom", "/a.js", 2, 20],
    ["<anonymous>", "/a.js", 8, 48],
  ]);
  assert.deepEqual(of("boom@plugin.js:2:20\n@plugin.js:3:1"), [
    ["boom", "plugin.js", 2, 20],
    ["<anonymous>", "plugin.js", 3, 1],
  ]);
});
