import assert from "node:assert/strict";
import test from "node:test";
import { call } from "windlass/test";
import { slug } from "../src/plugin.js";

test("a title becomes a slug", async () => {
  const report = await call(slug, { input: { title: "Über uns & mehr" }, config: { separator: "-" } });
  assert.deepEqual(report.output, { slug: "uber-uns-and-mehr" });
});

test("a title without letters is invalid", async () => {
  const report = await call(slug, { input: { title: "…" }, config: { separator: "-" } });
  assert.equal(report.failure.class, "invalid");
});
