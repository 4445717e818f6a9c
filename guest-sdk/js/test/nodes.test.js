// The library for authors, by its own test kit.

import assert from "node:assert/strict";
import test from "node:test";
import {
  Blob,
  Raw,
  again,
  blobs,
  consumer,
  decide,
  done,
  events,
  failure,
  fetch,
  log,
  memory,
  node,
  nowMs,
  randomBytes,
  suspend,
} from "windlass";
import { Response, accept, call, check } from "windlass/test";

test("a plain value is the output, by the port done", async () => {
  const sum = node((input) => ({ total: input.a + input.b }));
  const report = await call(sum, { input: { a: 1, b: 2 } });
  assert.deepEqual([report.outcome, report.output, report.ports], ["done", { total: 3 }, ["done"]]);
});

test("values arrive as JSON keeps them", async () => {
  const seen = node((input) => input);
  const input = { gone: undefined, when: new Date(0), big: 9007199254740993n };
  const report = await call(node((it) => Object.keys(it)), { input });
  assert.deepEqual(report.output, ["when", "big"]);
  assert.equal((await call(seen, { input: { when: new Date(0) } })).output.when, "1970-01-01T00:00:00.000Z");
});

test("done takes declared ports, and others fail the test", async () => {
  const about = { ports: ["done", "large"], run: ({ port }) => done(1, port) };
  assert.deepEqual((await call(node(about), { input: { port: "large" } })).ports, ["large"]);
  const wrong = call(node(about), { input: { port: "small" } });
  await assert.rejects(wrong, /port small, which it does not declare/);
});

test("failures keep class, details, position and delay", async () => {
  const fails = node((input) => {
    throw failure[input]("why", { details: { a: 1 }, position: { line: 2 }, afterMs: 5 });
  });
  for (const kind of ["invalid", "permanent", "retryable"]) {
    const { failure: found } = await call(fails, { input: kind });
    assert.equal(found.class, kind);
    assert.deepEqual([found.message, found.details, found.position.line], ["why", { a: 1 }, 2]);
  }
  assert.equal((await call(fails, { input: "retryable" })).failure.afterMs, 5);
  const cancelled = node(() => {
    throw failure.cancelled();
  });
  assert.equal((await call(cancelled)).failure.class, "cancelled");
});

test("any other exception is a failure with its file and line", async () => {
  const report = await call(node((input) => input.missing.name), { input: {} });
  assert.equal(report.failure.class, "other");
  assert.match(report.failure.message, /^TypeError: /);
  assert.match(report.failure.position.source, /nodes\.test\.js$/);
  assert.ok(report.failure.position.line > 1);
});

test("a thrown value of any kind has a message", async () => {
  for (const [thrown, message] of [["text", "text"], [{ a: 1 }, '{"a":1}'], [undefined, "undefined"]]) {
    const throws = node(() => {
      throw thrown;
    });
    assert.equal((await call(throws)).failure.message, `the node threw ${message}`);
  }
});

test("suspend, again and their state come back with the resumption", async () => {
  const waits = node({
    suspends: true,
    run(_input, { resumption }) {
      if (!resumption) return suspend({ bookmarks: [{ name: "paid", match: { order: 7 } }], state: { n: 1 } });
      if (resumption.reason === "resumed") return again({ afterMs: 100, state: resumption.input });
      return resumption;
    },
  });
  const first = await call(waits);
  assert.deepEqual([first.outcome, first.state, first.bookmarks[0].match], ["suspend", { n: 1 }, { order: 7 }]);
  const resumption = { reason: "resumed", bookmark: "paid", input: { by: "ada" }, state: first.state };
  const second = await call(waits, { resumption });
  assert.deepEqual([second.outcome, second.afterMs, second.state], ["again", 100, { by: "ada" }]);
  const last = await call(waits, { resumption: { reason: "expired", bookmark: "paid", phase: 2 } });
  assert.deepEqual(last.output, { reason: "expired", phase: 2, bookmark: "paid" });
});

test("suspending without saying so fails the test", async () => {
  await assert.rejects(call(node(() => again({ afterMs: 1 }))), /has no suspends: true/);
});

test("the console and log write to the log of the run", async () => {
  const talks = node(() => {
    console.log("a", { b: 1 }, 2n, new Map([["k", 1]]));
    console.warn("\ud800");
    log("debug", "with", { shop: "x", n: 3 });
  });
  assert.deepEqual((await call(talks)).log, [
    { level: "info", message: 'a {"b":1} 2n {"k":1}', fields: {} },
    { level: "warn", message: "\ufffd", fields: {} },
    { level: "debug", message: "with", fields: { shop: "x", n: "3" } },
  ]);
});

test("fetch sends secrets by name, and reads JSON", async () => {
  const asks = node(async ({ url }) => {
    const headers = { Authorization: { secret: "TOKEN" }, "x-a": "1" };
    const answer = await globalThis.fetch(url, { method: "post", headers, body: "{}" });
    return { ok: answer.ok, type: answer.headers.get("Content-Type"), body: await answer.json() };
  });
  const http = ({ method }) => new Response(`\ufeff{"id":9007199254740991,"m":"${method}"}`, { headers: { "content-type": "application/json" } });
  const report = await call(asks, { input: { url: "https://shop.example/a?secret" }, http });
  assert.deepEqual(report.output, { ok: true, type: "application/json", body: { id: 9007199254740991, m: "POST" } });
  assert.deepEqual(report.requests[0].headers, { authorization: { secret: "TOKEN" }, "x-a": "1" });
});

test("errors of the host are failures with class and code", async () => {
  const asks = node(async () => fetch("https://user:pw@shop.example/a?key=1"));
  const denied = await call(asks);
  assert.equal(denied.failure.class, "permanent");
  assert.equal(denied.failure.error.code, "http.denied");
  assert.deepEqual(denied.failure.details, { code: "http.denied" });
  assert.match(denied.failure.message, /^GET https:\/\/shop\.example\/a is not granted/);
  assert.equal((await call(asks, { http: () => "timeout" })).failure.class, "retryable");
  const reads = await call(node(() => memory("secrets.x")));
  assert.deepEqual([reads.failure.class, reads.failure.error.code], ["invalid", "memory.invalid-path"]);
});

test("memory, blobs and events reach the fake host", async () => {
  const all = node(() => {
    const blob = blobs.write([new Uint8Array([1, 2]), new Uint8Array([3])], "image/png");
    events.send({ name: "paid", match: { order: 1 }, input: memory("vars.user") });
    events.schedule({ node: "later", at: nowMs() + 5, payload: { a: 1 } });
    return { size: blobs.size(blob), part: [...blobs.read(blob, 1, 5)], none: memory("vars.none") ?? null };
  });
  const report = await call(all, { memory: { "vars.user": "ada" }, nowMs: 1000 });
  assert.deepEqual(report.output, { size: 3, part: [2, 3], none: null });
  assert.deepEqual([report.sent[0].name, report.sent[0].match, report.sent[0].input], ["paid", { order: 1 }, "ada"]);
  assert.deepEqual(report.scheduled, [{ node: "later", at: 1005, payload: { a: 1 } }]);
});

test("other media types travel as they are", async () => {
  const csv = await call(node(() => new Raw("text/csv", "a,b")));
  assert.deepEqual([csv.output.contentType, csv.output.text], ["text/csv", "a,b"]);
  const blob = await call(node({ run: (input) => input }), { input: new Blob("ref") });
  assert.equal(blob.output.reference, "ref");
});

test("the context has what the test says", async () => {
  const looks = node((_input, ctx) => {
    ctx.progress(0.5, "half");
    return [ctx.config.a, ctx.attempt, ctx.cancelled, ctx.runId.length, ctx.resumeToken("x"), ctx.correlationId ?? null];
  });
  const report = await call(looks, { config: { a: 1 }, attempt: 3, cancelled: true });
  assert.deepEqual(report.output, [1, 3, true, 36, "token-of-x", null]);
  assert.deepEqual(report.progress, [{ fraction: 0.5, note: "half" }]);
});

test("timers say what to do instead", async () => {
  const report = await call(node(() => setTimeout(() => {}, 1)));
  assert.match(report.failure.message, /setTimeout does not exist in a plugin: return again/);
});

test("the clock is the test's", async () => {
  const report = await call(node(() => [Date.now(), new Date().toISOString()]), { nowMs: 0 });
  assert.deepEqual(report.output, [0, "1970-01-01T00:00:00.000Z"]);
});

test("host functions outside of a call say so", () => {
  assert.throws(() => memory("vars.a"), /needs the host, and there is none outside of a call/);
  assert.deepEqual(randomBytes(2), new Uint8Array(2));
});

test("a consumer decides", async () => {
  const office = consumer({
    routes: ["office"],
    accept({ payload }) {
      if (payload.gate === "reject") return decide.reject("nobody signed this");
      if (payload.gate === "later") return decide.later(1500);
      if (payload.gate === "wrong") return {};
      return payload.gate ? decide.handled() : decide.execute({ by: "office" });
    },
  });
  const ask = (gate) => accept(office, { payload: { gate } });
  assert.deepEqual((await ask()).vars, { by: "office" });
  assert.equal((await ask("reject")).reason, "nobody signed this");
  assert.equal((await ask("later")).afterMs, 1500);
  assert.equal((await ask("done")).outcome, "handled");
  assert.match((await ask("wrong")).failure.message, /accept has to return decide/);
});

test("a check gives findings", () => {
  const checks = node({
    check: ({ pattern }) => (pattern === "" ? [{ message: "the pattern is empty", pointer: "/pattern" }] : []),
    run: () => 1,
  });
  assert.deepEqual(check(checks, { pattern: "" })[0].pointer, "/pattern");
  assert.deepEqual(check(checks, { pattern: "a" }), []);
});
