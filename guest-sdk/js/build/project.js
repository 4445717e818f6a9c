// What a project folder says about its plugin.

import { existsSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { BuildError } from "./errors.js";

const SOURCES = ["src/plugin.ts", "src/plugin.js", "src/plugin.mjs"];

/** The engines; the first is that of a project without a wish. */
export const ENGINES = ["quickjs", "starlingmonkey"];

/** The version of the interfaces that this SDK speaks. */
export const VERSION = "0.1.0";

/** The folder of this SDK. */
export const SDK = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/** The project in a folder: its source, and the package as the description has it. */
export async function project(directory) {
  const file = path.join(directory, "package.json");
  let json;
  try {
    json = JSON.parse(await readFile(file, "utf8"));
  } catch (error) {
    throw new BuildError(`${file}: ${error.code === "ENOENT" ? "there is no such file" : error.message}`);
  }
  const settings = json.windlass ?? {};
  const wanted = settings.source ? [settings.source] : SOURCES;
  const source = wanted.map((name) => path.join(directory, name)).find(existsSync);
  if (!source) throw new BuildError(`${directory}: there is no ${wanted.join(" and no ")}`);
  const engine = settings.engine ?? ENGINES[0];
  if (!ENGINES.includes(engine)) {
    throw new BuildError(`package.json: there is no engine ${engine}; there are ${ENGINES.join(" and ")}`);
  }
  return {
    directory,
    source,
    engine,
    about: {
      package: settings.package ?? String(json.name ?? "").replace(/^@[^/]*\//, ""),
      version: json.version,
      title: settings.title,
      description: json.description,
    },
  };
}

/** The files of the contract: `{ name, text }`, beside this SDK or in it. */
export async function contract() {
  for (const folder of [path.join(SDK, "wit"), path.resolve(SDK, "../../wit")]) {
    if (!existsSync(folder)) continue;
    const entries = await readdir(folder, { recursive: true });
    const found = entries.filter((name) => name.endsWith(".wit")).sort();
    const read = async (name) => ({
      name: path.basename(name, ".wit"),
      text: await readFile(path.join(folder, name), "utf8"),
    });
    return Promise.all(found.map(read));
  }
  throw new BuildError(`${SDK}: the contract is missing; it belongs into the folder wit`);
}
