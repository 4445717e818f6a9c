import assert from "node:assert/strict";
import test from "node:test";
import { call } from "windlass/test";
import { greet } from "../src/greet.js";

test("a person is greeted", async () => {
  const report = await call(greet, { input: { name: "Zoë" } });
  assert.deepEqual(report.output, { greeting: "Hello, Zoë!" });
});

test("an empty name is invalid", async () => {
  const report = await call(greet, { input: { name: "" } });
  assert.equal(report.failure?.class, "invalid");
});
