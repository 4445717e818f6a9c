// One node for each promise of the SDK that needs a real host. `javascript.rs` of the system tests
// calls them.

import { again, blobs, consumer, decide, done, events, failure, memory, node, suspend } from "windlass";
import { broken } from "./deep/broken.js";

export const echo = node((input) => input);

export const bug = node((input) => broken(input));

export const rejects = node(async (input) => {
  await null;
  return broken(input);
});

export const refuses = node(() => {
  throw failure.invalid("no orders", { details: { orders: 0 } });
});

export const exhausts = node({
  run(_input, ctx) {
    return exhausts.run(_input, ctx) + 1;
  },
});

export const promises = node(async (input) => {
  const seen = [];
  for await (const item of counted(input)) seen.push(item);
  const all = await Promise.all([1, Promise.resolve(2), new Promise((resolve) => queueMicrotask(() => resolve(3)))]);
  const settled = await Promise.allSettled([Promise.reject(new Error("no"))]);
  return { seen, all, settled: settled[0].status };
});

async function* counted(to) {
  for (let n = 1; n <= to; n++) yield n;
}

export const forever = node(() => new Promise(() => {}));

export const timer = node(() => setTimeout(() => {}, 5));

export const globals = node(() => {
  const url = new URL("/a?b=c d#e", "https://x.example:8443/q");
  url.searchParams.append("f", "ä");
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  return {
    url: url.href,
    search: new URLSearchParams("a=1&a=2").getAll("a"),
    text: new TextDecoder().decode(new TextEncoder().encode("héllo 🎉")),
    base64: atob(btoa("abc")),
    clone: structuredClone({ a: [1, { b: 2 }] }),
    uuid: crypto.randomUUID(),
    bytes: bytes.some((byte) => byte !== 0),
    random: [Math.random(), Math.random()],
    now: Date.now(),
    year: new Date().getUTCFullYear(),
    parsed: new Date("2026-01-02T03:04:05Z").toISOString(),
    elapsed: performance.now() - performance.now() <= 0,
  };
});

export const waits = node({
  suspends: true,
  run(_input, { resumption }) {
    if (!resumption) return again({ afterMs: 1, state: { polls: 1 } });
    if (resumption.reason === "again" && resumption.state.polls < 3) {
      return again({ afterMs: 1, state: { polls: resumption.state.polls + 1 } });
    }
    if (resumption.reason === "again") {
      const expiresAt = new Date(Date.now() + 1);
      return suspend({ bookmarks: [{ name: "paid", match: { order: 7 }, expiresAt }], state: resumption.state });
    }
    return resumption;
  },
});

export const parts = node({
  capabilities: ["events"],
  ports: ["done", "large"],
  run() {
    const blob = blobs.write([new Uint8Array([1, 2, 3]), new Uint8Array([4])], "application/octet-stream");
    const read = [...blobs.read(blob, 1, 2)];
    let refused;
    try {
      events.send({ name: "paid", match: { order: 1 }, input: 1n });
    } catch (error) {
      refused = [error.class, error.code];
    }
    console.log("read", { read });
    return done({ size: blobs.size(blob), read, user: memory("input.user"), refused }, "large");
  },
});

export const checked = node({
  check: ({ pattern }) => (pattern === "" ? [{ message: "the pattern is empty", pointer: "/pattern" }] : []),
  run: (_input, { config }) => config,
});

export const gate = consumer({
  routes: ["script"],
  accept: ({ kind }) => decide.execute({ accepted: kind }),
});
