// The component, by the toolchain of an engine.

import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { BuildError, MISSING } from "./errors.js";
import { VERSION, contract } from "./project.js";

const STARLINGMONKEY = "@bytecodealliance/componentize-js";
const STARLINGMONKEY_VERSION = "0.23.0";

/** Makes the component: its bytes. */
export async function componentize({ plugin, engine, exports, imports, code }) {
  const folder = await mkdtemp(path.join(os.tmpdir(), "windlass-"));
  try {
    await world(folder, imports, exports);
    const make = engine === "quickjs" ? quickjs : starlingmonkey;
    return await make(path.join(folder, "wit"), code, plugin);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Writes a world of exactly these interfaces, beside the contract. */
async function world(folder, imports, exports) {
  const wit = path.join(folder, "wit");
  for (const { name, file } of await contract()) {
    const to = path.join(wit, "deps", name);
    await mkdir(to, { recursive: true });
    await copyFile(file, path.join(to, `${name}.wit`));
  }
  const line = (verb) => (name) => `    ${verb} windlass:${name}/${name}@${VERSION};\n`;
  const items = [...imports.map(line("import")), ...exports.map(line("export"))].join("");
  await writeFile(path.join(wit, "world.wit"), `package author:plugin;\n\nworld plugin {\n${items}}\n`);
}

async function quickjs(witPath, jsSource) {
  const { componentize } = await import("componentize-qjs").catch(() => {
    throw new BuildError("componentize-qjs is not installed: npm install", MISSING);
  });
  const options = { witPath, jsSource, world: "plugin", sync: true, optSize: true, stubWasi: true };
  try {
    return (await componentize(options)).component;
  } catch (error) {
    throw new BuildError(`componentize-qjs: ${error.message}`);
  }
}

async function starlingmonkey(witPath, source, { directory }) {
  let toolchain;
  try {
    const require = createRequire(path.join(directory, "package.json"));
    toolchain = await import(pathToFileURL(require.resolve(STARLINGMONKEY)));
  } catch {
    throw new BuildError(
      `${STARLINGMONKEY} is not installed: npm install --save-dev ${STARLINGMONKEY}@${STARLINGMONKEY_VERSION}`,
      MISSING,
    );
  }
  try {
    const disableFeatures = ["http", "fetch-event"];
    const options = { witPath, worldName: "plugin", sourceName: "plugin.js", disableFeatures };
    return (await toolchain.componentize(source, options)).component;
  } catch (error) {
    throw new BuildError(`${STARLINGMONKEY}: ${error.message}`);
  }
}
