import assert from "node:assert/strict";
import test from "node:test";
import { Response, call } from "windlass/test";
import { best } from "../src/plugin.js";

const input = { grams: 500, country: "DE" };
const config = { carriers: ["https://slow.example", "https://cheap.example"], key: { secret: "CARRIERS" } };

test("the lowest price is taken", async () => {
  const http = ({ url }: { url: string }) => new Response(JSON.stringify({ cents: url.includes("cheap") ? 390 : 520 }));
  const report = await call(best, { input, config, http });
  assert.deepEqual(report.output, { carrier: "https://cheap.example", cents: 390 });
  assert.equal(report.requests[0].url, "https://slow.example?grams=500&to=DE");
  assert.deepEqual(report.requests[0].headers.authorization, { secret: "CARRIERS" });
});

test("a carrier that does not answer is left out", async () => {
  const http = ({ url }: { url: string }) =>
    url.includes("slow") ? ("timeout" as const) : new Response('{"cents":1}');
  const report = await call(best, { input, config, http });
  assert.equal(report.output?.cents, 1);
  assert.match(report.log[0].message, /slow\.example makes no offer: Failure: GET/);
});

test("without any answer a retry makes sense", async () => {
  const report = await call(best, { input, config, http: () => "unreachable" as const });
  assert.deepEqual([report.failure?.class, report.failure?.afterMs], ["retryable", 1000]);
});
