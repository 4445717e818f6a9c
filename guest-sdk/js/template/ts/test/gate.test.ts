import assert from "node:assert/strict";
import test from "node:test";
import { accept } from "windlass/test";
import { gate } from "../src/gate.js";

test("a user is admitted", async () => {
  const { outcome, vars } = await accept(gate, { payload: { user: "ada" } });
  assert.deepEqual([outcome, vars], ["execute", { user: "ada" }]);
});

test("a trigger without a user is rejected", async () => {
  const { outcome, reason } = await accept(gate, { payload: { amount: 7 } });
  assert.deepEqual([outcome, reason], ["reject", "`user` is missing"]);
});
