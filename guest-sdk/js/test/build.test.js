// The program that builds components, on projects in a temporary folder.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import test from "node:test";
import { SDK } from "../build/project.js";

const PROGRAM = path.join(SDK, "bin/windlass-build.mjs");

/** A project with these files beside `package.json`, and what the program says about it. */
async function built(context, files, ...options) {
  const folder = await mkdtemp(path.join(os.tmpdir(), "windlass-test-"));
  context.after(() => rm(folder, { recursive: true }));
  await mkdir(path.join(folder, "node_modules"));
  await symlink(SDK, path.join(folder, "node_modules/windlass"));
  const manifest = JSON.stringify({ name: "@shop/tools", version: "1.0.0", type: "module" });
  for (const [name, text] of Object.entries({ "package.json": manifest, ...files })) {
    await mkdir(path.dirname(path.join(folder, name)), { recursive: true });
    await writeFile(path.join(folder, name), text);
  }
  return { folder, ...(await run(folder, ...options)) };
}

function run(folder, ...options) {
  return new Promise((resolve) => {
    execFile(process.execPath, [PROGRAM, folder, ...options], (error, stdout, stderr) => {
      resolve({ code: error?.code ?? 0, stdout, stderr });
    });
  });
}

const SUM = 'import { node } from "windlass";\nexport const sumAll = node((input) => input.a + 1);\n';

test("a component is written, and equal inputs give equal bytes", async (context) => {
  const first = await built(context, { "src/plugin.js": SUM }, "--json");
  assert.equal(first.stderr, "");
  const result = JSON.parse(first.stdout);
  assert.deepEqual([result.package, result.nodes, result.pure], ["tools", ["tools/sum-all"], true]);
  assert.deepEqual(result.imports, ["context"]);
  assert.ok(result.bytes < 1_200_000, `${result.bytes} bytes`);
  const bytes = await readFile(result.file);
  assert.equal(bytes.length, result.bytes);
  assert.deepEqual(await readdir(path.dirname(result.file)), ["tools.wasm"]);

  // In another folder, where nothing is kept from the first build.
  const second = await built(context, { "src/plugin.js": SUM }, "--json");
  assert.equal(JSON.parse(second.stdout).sha256, result.sha256);
  await writeFile(path.join(first.folder, "src/plugin.js"), SUM.replace("+ 1", "+ 2"));
  const changed = JSON.parse((await run(first.folder, "--json", "--out", "other.wasm")).stdout);
  assert.notEqual(changed.sha256, result.sha256);
  assert.equal(path.basename(changed.file), "other.wasm");
});

test("modules of Node are mistakes with the place of their import", async (context) => {
  const { code, stderr } = await built(context, {
    "src/plugin.js": 'import { node } from "windlass";\nimport { a } from "./deep.js";\nexport const x = node(() => a);\n',
    "src/deep.js": 'import fs from "fs";\nimport "node:path";\nexport const a = fs;\n',
  });
  assert.equal(code, 1);
  assert.deepEqual(stderr.trim().split("\n"), [
    "error: src/deep.js:1:16: fs is a module of Node.js, and a plugin runs without Node.js",
    "error: src/deep.js:2:8: node:path is a module of Node.js, and a plugin runs without Node.js",
  ]);
});

test("code beside the nodes that fails has its place", async (context) => {
  const source = 'import { node, memory } from "windlass";\nconst a = 1;\nmemory("vars.a");\nexport const x = node(() => a);\n';
  const { code, stderr } = await built(context, { "src/plugin.js": source });
  assert.equal(code, 1);
  assert.match(stderr, /^error: src\/plugin\.js:3:1: the plugin cannot be loaded: Error: memory vars\.a needs the host/);
});

test("descriptions that a host would refuse are mistakes", async (context) => {
  const source = `import { node } from "windlass";
export const Über = node(() => 1);
export const a = node({ ports: ["error"], capabilities: ["files"], run: () => 1 });
`;
  const { code, stderr } = await built(context, { "src/plugin.js": source });
  assert.equal(code, 1);
  for (const part of ["its name has to be", "`error` is the host's", "there is no capability files"]) {
    assert.ok(stderr.includes(part), stderr);
  }
  const none = await built(context, { "src/plugin.js": "export const a = 1;\n" });
  assert.match(none.stderr, /there is neither a node nor a consumer/);
});

test("capabilities that are asked for and not used, and the reverse, are warnings", async (context) => {
  const asks = 'import { node } from "windlass";\nexport const a = node({ capabilities: ["http", "events"], run: () => 1 });\n';
  const { code, stderr } = await built(context, { "src/plugin.js": asks });
  assert.equal(code, 0);
  assert.match(stderr, /asks for the capability http, and the plugin never uses fetch/);
  assert.match(stderr, /asks for the capability events, and the plugin never uses events/);
  const uses = 'import { node } from "windlass";\nexport const a = node(async () => (await fetch("https://a.example")).status);\n';
  const used = await built(context, { "src/plugin.js": uses });
  assert.match(used.stderr, /^warning: the plugin uses fetch, and no node asks for it/);
});

test("a large component is a warning, which is in the result in place of stderr", async (context) => {
  const large = Array.from({ length: 200_000 }, (_, index) => (index * 7919).toString(36)).join("");
  const source = `import { node } from "windlass";\nconst text = "${large}";\nexport const a = node(() => text.length);\n`;
  const { code, stdout, stderr } = await built(context, { "src/plugin.js": source }, "--json");
  assert.deepEqual([code, stderr], [0, ""]);
  const { bytes, warnings } = JSON.parse(stdout);
  assert.ok(bytes > 2 * 1024 * 1024, `${bytes} bytes`);
  assert.match(warnings.join(), /^the component has [\d.]+ MB, and [\d.]+ MB of them are your bundle/);
});

const TYPED = `import { node, done, again, type Context, type integer } from "windlass";
interface Order { total: integer; tags?: string[]; parts?: Order[] }
interface Config {
  /** @raw */
  filter: string;
  /** @default 3 */
  limit?: number;
}
/** Adds up. */
export const sum = node({
  ports: ["done", "large"],
  suspends: true,
  async run(input: { orders: Order[]; pair: [string, number] }, ctx: Context<Config>) {
    const total: integer = input.orders.length;
    if (total === 9) return again({ afterMs: 1 });
    return total > ctx.config.limit! ? done({ total }, "large") : { total };
  },
});
`;

test("types become schemas", async (context) => {
  const { project } = await import("../build/project.js");
  const { schemas } = await import("../build/schemas.js");
  const { folder, code, stderr } = await built(context, { "src/plugin.ts": TYPED });
  assert.deepEqual([code, stderr], [0, ""]);
  const { sum } = await schemas(await project(folder));
  assert.equal(sum.description, "Adds up.");
  assert.deepEqual(sum.config, {
    type: "object",
    properties: { filter: { type: "string", "x-raw": true }, limit: { type: "number", default: 3 } },
    required: ["filter"],
    additionalProperties: false,
  });
  assert.deepEqual(sum.output, { type: "object", properties: { total: { type: "number" } }, required: ["total"] });
  assert.deepEqual(sum.input.properties.pair.prefixItems, [{ type: "string" }, { type: "number" }]);
  assert.deepEqual(sum.input.properties.orders.items, { $ref: "#/$defs/Order" });
  assert.deepEqual(sum.input.$defs.Order.properties.parts.items, { $ref: "#/$defs/Order" });
});

test("types without JSON and mistakes of types are refused with their line", async (context) => {
  const source = `import { node } from "windlass";
interface In { when: Date; fn(): void; big: bigint; all: Map<string, number> }
export const a = node({ run(input: In) { return { seen: new Set([1]) }; } });
`;
  const { code, stderr } = await built(context, { "src/plugin.ts": source });
  assert.equal(code, 1);
  assert.deepEqual(stderr.trim().split("\n"), [
    "error: src/plugin.ts:2:16: input.when: Date has no JSON; use a text, such as that of toISOString()",
    "error: src/plugin.ts:2:28: input.fn: a function has no JSON",
    "error: src/plugin.ts:2:40: input.big: a bigint has no schema; use number, or string",
    "error: src/plugin.ts:2:53: input.all: Map has no JSON; use an object or an array",
    "error: src/plugin.ts:3:51: output.seen: Set has no JSON; use an array",
  ]);
  const wrong = await built(context, { "src/plugin.ts": 'const a: number = "b";\nexport { a };\n' });
  assert.match(wrong.stderr, /^error: src\/plugin\.ts:1:7: Type 'string' is not assignable to type 'number'/);
});

test("JSDoc gives schemas, too", async (context) => {
  const { project } = await import("../build/project.js");
  const { schemas } = await import("../build/schemas.js");
  const source = `import { node } from "windlass";
export const a = node({
  /** @param {{ name: string }} input */
  run(input) { return { length: input.name.length }; },
});
`;
  const { folder } = await built(context, { "src/plugin.js": source });
  const { a } = await schemas(await project(folder));
  assert.deepEqual(a.input, { type: "object", properties: { name: { type: "string" } }, required: ["name"] });
  assert.equal(a.config, undefined);
});

test("exit codes tell wrong calls and missing tools", async (context) => {
  assert.equal((await built(context, { "src/plugin.js": SUM }, "--wrong")).code, 2);
  const wanting = (engine) => ({
    "src/plugin.js": SUM,
    "package.json": JSON.stringify({ name: "tools", version: "1.0.0", windlass: { engine } }),
  });
  for (const missing of [
    await built(context, { "src/plugin.js": SUM }, "--engine", "starlingmonkey"),
    await built(context, wanting("starlingmonkey")),
  ]) {
    assert.equal(missing.code, 3);
    assert.match(missing.stderr, /npm install --save-dev @bytecodealliance\/componentize-js@/);
  }
  const unknown = await built(context, wanting("v8"));
  assert.match(unknown.stderr, /^error: package\.json: there is no engine v8; there are quickjs and starlingmonkey/);
  assert.equal((await built(context, wanting("starlingmonkey"), "--engine", "quickjs")).code, 0);
  const empty = await built(context, {});
  assert.match(empty.stderr, /there is no src\/plugin\.ts and no src\/plugin\.js/);
});
