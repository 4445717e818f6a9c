// The component, by the toolchain of an engine.

import { createHash } from "node:crypto";
import { mkdir, mkdtemp, readFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { BuildError, MISSING } from "./errors.js";
import { VERSION, contract } from "./project.js";
import { runtime } from "./runtime.js";

const QUICKJS = "componentize-qjs";
const STARLINGMONKEY = "@bytecodealliance/componentize-js";
/** The second is a dependency that it does not declare. */
const STARLINGMONKEY_PACKAGES = `${STARLINGMONKEY}@0.23.0 @bytecodealliance/preview2-shim@0.17.4`;

/** How many components of a project are kept. */
const KEPT = 8;

/**
 * Makes the component: its bytes. It is kept by the digest of its inputs, so that an unchanged plugin
 * is not made again; StarlingMonkey puts random seeds into what it makes.
 */
export async function componentize({ plugin, engine, exports, imports, code }) {
  const contents = await contract();
  const line = (verb) => (name) => `    ${verb} windlass:${name}/${name}@${VERSION};\n`;
  const items = [...imports.map(line("import")), ...exports.map(line("export"))].join("");
  const world = `package author:plugin;\n\nworld plugin {\n${items}}\n`;

  const toolchain = engine === "quickjs" ? QUICKJS : STARLINGMONKEY;
  const { folder: program, manifest } = await installed(toolchain, plugin);
  const inputs = JSON.stringify([toolchain, manifest.version, world, contents.map(({ text }) => text), code]);
  const digest = createHash("sha256").update(inputs).digest("hex");
  const cache = path.join(plugin.directory, "node_modules", ".cache", "windlass");
  const kept = path.join(cache, `${digest}.wasm`);
  const found = await readFile(kept).catch(() => undefined);
  if (found) return found;

  const folder = await mkdtemp(path.join(os.tmpdir(), "windlass-"));
  try {
    const wit = path.join(folder, "wit");
    for (const { name, text } of contents) {
      await mkdir(path.join(wit, "deps", name), { recursive: true });
      await writeFile(path.join(wit, "deps", name, `${name}.wit`), text);
    }
    await writeFile(path.join(wit, "world.wit"), world);
    const make = engine === "quickjs" ? quickjs : starlingmonkey;
    const entry = path.join(program, manifest.exports?.import ?? manifest.main);
    const component = await make(wit, code, entry, path.join(cache, `engine-${manifest.version}`));
    await keep(cache, kept, component);
    return component;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Keeps a component, in place of the oldest. */
async function keep(cache, file, component) {
  await mkdir(cache, { recursive: true });
  await replace(file, component);
  const names = (await readdir(cache)).filter((name) => name.endsWith(".wasm"));
  const ages = await Promise.all(
    names.map(async (name) => [(await stat(path.join(cache, name))).mtimeMs, name]),
  );
  ages.sort(([a], [b]) => b - a);
  for (const [, name] of ages.slice(KEPT)) await rm(path.join(cache, name), { force: true });
}

/** Writes a file by renaming. */
export async function replace(file, bytes) {
  await mkdir(path.dirname(file), { recursive: true });
  const fresh = path.join(path.dirname(file), `.${path.basename(file)}.${process.pid}`);
  try {
    await writeFile(fresh, bytes);
    await rename(fresh, file);
  } finally {
    await rm(fresh, { force: true });
  }
}

/** A toolchain that is installed: its folder and what it says about itself. */
async function installed(name, { directory }) {
  const from = name === QUICKJS ? import.meta.url : path.join(directory, "package.json");
  const require = createRequire(from);
  for (const folder of require.resolve.paths(name) ?? []) {
    const text = await readFile(path.join(folder, name, "package.json"), "utf8").catch(() => undefined);
    if (text) return { folder: path.join(folder, name), manifest: JSON.parse(text) };
  }
  const line = name === QUICKJS ? "npm install" : `npm install --save-dev ${STARLINGMONKEY_PACKAGES}`;
  throw new BuildError(`${name} is not installed: ${line}`, MISSING);
}

/** `kept` is a file for the engine, which takes time to find. */
async function quickjs(witPath, jsSource, program, kept) {
  const { componentize } = (await import(pathToFileURL(program))).default;
  let runtimeBytes = await readFile(kept).catch(() => undefined);
  if (!runtimeBytes) {
    runtimeBytes = await runtime(program);
    if (runtimeBytes) await replace(kept, runtimeBytes);
  }
  const engine = runtimeBytes ? { runtimeBytes } : { sync: true, optSize: true };
  const options = { witPath, jsSource, world: "plugin", stubWasi: true, ...engine };
  try {
    return (await componentize(options)).component;
  } catch (error) {
    throw new BuildError(`componentize-qjs: ${error.message}`);
  }
}

async function starlingmonkey(witPath, source, program) {
  const toolchain = await import(pathToFileURL(program));
  try {
    const disableFeatures = ["http", "fetch-event"];
    const options = { witPath, worldName: "plugin", sourceName: "plugin.js", disableFeatures };
    return (await toolchain.componentize(source, options)).component;
  } catch (error) {
    throw new BuildError(`${STARLINGMONKEY}: ${error.message}`);
  }
}
