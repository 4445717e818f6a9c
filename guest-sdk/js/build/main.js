// From a project folder to a component.

import { createHash } from "node:crypto";
import path from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { component as bundle, script } from "./bundle.js";
import { componentize, replace } from "./componentize.js";
import { evaluate, faults, warnings } from "./document.js";
import { BuildError, USAGE } from "./errors.js";
import { ENGINES, project } from "./project.js";
import { schemas } from "./schemas.js";

const HELP = `Usage: windlass-build [DIR] [--out FILE] [--engine quickjs|starlingmonkey] [--json]

Builds the plugin in DIR (here by default) and writes its component.

  --out FILE     the component; default: dist/PACKAGE.wasm in DIR
  --engine NAME  quickjs (default: small, fast) or starlingmonkey, in place of that of package.json
  --json         print the result as one line of JSON
`;

/** A component beyond this loads noticeably slower: bytes. */
const LARGE = 2 * 1024 * 1024;

/** Runs the program and gives its exit code. */
export async function run(args) {
  try {
    const options = arguments_(args);
    if (!options) return 0;
    const result = await build(options);
    if (options.json) {
      process.stdout.write(`${JSON.stringify(result)}\n`);
      return 0;
    }
    for (const warning of result.warnings) process.stderr.write(`warning: ${warning}\n`);
    process.stdout.write(told(result));
    return 0;
  } catch (error) {
    if (!(error instanceof BuildError)) throw error;
    for (const message of error.messages) process.stderr.write(`error: ${message}\n`);
    return error.code;
  }
}

function arguments_(args) {
  const option = { type: "string" };
  let parsed;
  try {
    parsed = parseArgs({
      args,
      allowPositionals: true,
      options: {
        out: option,
        engine: option,
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw new BuildError([error.message, HELP], USAGE);
  }
  const { values, positionals } = parsed;
  if (values.help) {
    process.stdout.write(HELP);
    return undefined;
  }
  if (positionals.length > 1 || (values.engine && !ENGINES.includes(values.engine))) {
    throw new BuildError(HELP, USAGE);
  }
  return { ...values, directory: path.resolve(positionals[0] ?? ".") };
}

/**
 * Builds a plugin and writes its component by renaming.
 * @returns the file, its size and digest, the imports, the warnings
 */
export async function build({ directory, out, engine: asked }) {
  const begun = performance.now();
  const plugin = await project(directory);
  const engine = asked ?? plugin.engine;
  const about = { ...plugin.about, schemas: await schemas(plugin) };
  const loaded = await script(plugin, about);
  const { description, checks } = evaluate(loaded);
  const mistakes = faults(description, plugin);
  if (mistakes.length) throw new BuildError(mistakes);

  const exports = [
    description.nodes && "node",
    description.consumer && "consumer",
    checks && "check",
  ].filter(Boolean);
  const made = await bundle(plugin, { ...loaded, exports, description, engine });
  const component = await componentize({ plugin, engine, exports, ...made });
  const file = path.resolve(directory, out ?? path.join("dist", `${about.package}.wasm`));
  await replace(file, component);

  const found = warnings(description, made.imports);
  if (engine === "quickjs" && component.length > LARGE) {
    found.push(
      `the component has ${megabytes(component.length)}, and ${megabytes(made.code.length)} of them are your bundle; look for a smaller package`,
    );
  }
  if (importSections(component).some((section) => section.includes("wasi:http/"))) {
    found.push("the component imports wasi:http, which no host grants: use fetch of windlass");
  }
  return {
    file,
    package: description.package,
    version: description.version,
    nodes: (description.nodes ?? []).map(({ name }) => `${description.package}/${name}`),
    consumer: Boolean(description.consumer),
    bytes: component.length,
    sha256: createHash("sha256").update(component).digest("hex"),
    imports: made.imports,
    pure: !made.imports.some((name) => ["http", "events"].includes(name)),
    engine,
    milliseconds: Math.round(performance.now() - begun),
    warnings: found,
  };
}

/** The sections of a component that have the names of its imports. */
function importSections(component) {
  const IMPORTS = 10;
  const found = [];
  const bytes = Buffer.from(component);
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at++];
    let size = 0;
    for (let shift = 0, byte = 128; byte >= 128; shift += 7) {
      byte = bytes[at++];
      size += (byte & 127) * 2 ** shift;
    }
    if (id === IMPORTS) found.push(bytes.subarray(at, at + size));
    at += size;
  }
  return found;
}

function told(result) {
  const { file, bytes, milliseconds, imports, pure } = result;
  const names = [...result.nodes, ...(result.consumer ? ["a consumer"] : [])].join(", ");
  const uses = imports.length ? `uses ${imports.join(", ")}` : "uses nothing of the host";
  return `built ${path.relative(process.cwd(), file)}: ${names}; ${megabytes(bytes)}, ${uses}${pure ? ", pure" : ""}; ${(milliseconds / 1000).toFixed(1)} s\n`;
}

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;
