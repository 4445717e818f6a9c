// One module of the author's files, the packages that they import, and this SDK.

import { readFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import path from "node:path";
import { decode } from "@jridgewell/sourcemap-codec";
import * as esbuild from "esbuild";
import { BuildError, at } from "./errors.js";
import { SDK, VERSION } from "./project.js";

const NODE = new Set(builtinModules.filter((name) => !name.startsWith("_")));
const PREFIX = "windlass:";

/** Small globals: which words in a source mean that a plugin needs them. */
const GLOBALS = {
  timers: /\b(set|clear)(Timeout|Interval|Immediate)\b/,
  clock: /\b(Date|performance)\b/,
  console: /\bconsole\b/,
  promise: /\b(async|await|Promise|queueMicrotask)\b/,
  random: /\brandom\b/,
};

/** Constants of the bundle. */
const DEFINE = { "process.env.NODE_ENV": '"production"', global: "globalThis" };

/** Modules whose exports replace globals; StarlingMonkey needs only the first. */
const INJECTED = ["inject.js", "missing.js"].map((name) => path.join(SDK, "src/globals", name));

/** Zeros in the freed memory of the engine: a component keeps its old content otherwise. */
const SCRUB = `{let k=[];for(let s=8192;s>512;s/=2)for(let i=0;i*s<20000;i++)k.push(new ArrayBuffer(s))}`;

/** As `component`: for a context of Node, to read the description from. */
export async function script(plugin, about) {
  const entry = [
    ...Object.keys(GLOBALS).map((name) => `import ${sdk(`globals/${name}.js`)};`),
    `import * as plugin from ${JSON.stringify(plugin.source)};`,
    `import { describe } from ${sdk("describe.js")};`,
    `import { definitions } from ${sdk("define.js")};`,
    `export const document = () => describe(plugin, ${JSON.stringify(about)});`,
    `export const checks = () => definitions(plugin, "node").some(([, node]) => node.check);`,
  ];
  const made = await once(plugin, entry, { format: "iife", globalName: "plugin" });
  const sources = made.inputs.map((name) => path.resolve(plugin.directory, name));
  const globals = new Set();
  for (const file of sources.filter((file) => !isCore(file))) {
    const text = await readFile(file, "utf8").catch(() => "");
    for (const [name, words] of Object.entries(GLOBALS)) if (words.test(text)) globals.add(name);
  }
  return { ...made, globals };
}

/**
 * Bundles a plugin for the toolchain.
 * @returns `code`; `imports`: the interfaces of the host that it uses
 */
export async function component(plugin, { globals, exports, description, engine }) {
  const text = JSON.stringify(JSON.stringify(description));
  const entry = [
    ...Object.keys(GLOBALS)
      .filter((name) => globals.has(name))
      .map((name) => `import ${sdk(`globals/${name}.js`)};`),
    `import * as plugin from ${JSON.stringify(plugin.source)};`,
    `import { ${exports.map((name) => `${name}Export`).join(", ")} } from ${sdk("component.js")};`,
    `const description = ${text};`,
    ...exports.map((name) => `export const ${name} = ${name}Export(plugin, description);`),
  ];
  const isLarge = engine === "starlingmonkey";
  const format = {
    format: "esm",
    define: { ...DEFINE, WINDLASS_U64: isLarge ? "BigInt" : "Number" },
    inject: isLarge ? INJECTED.slice(0, 1) : INJECTED,
  };
  const made = await once(plugin, entry, format, globals.has("promise"));
  const tail = `globalThis.__windlass_map=${JSON.stringify(made.map)};${SCRUB}`;
  return { code: `${made.code}${tail}\n`, imports: made.imports };
}

const sdk = (name) => JSON.stringify(path.join(SDK, "src", name));

/** Whether a file of this SDK is in every component. */
function isCore(file) {
  const inside = path.relative(path.join(SDK, "src"), file);
  if (file.includes("node_modules/promise-polyfill/")) return true;
  return !inside.startsWith("..") && inside !== "http.js";
}

async function once({ directory }, entry, format, promises = true) {
  const isScript = format.format === "iife";
  let result;
  try {
    result = await esbuild.build({
      stdin: { contents: entry.join("\n"), resolveDir: directory, sourcefile: "windlass-entry" },
      absWorkingDir: directory,
      bundle: true,
      write: false,
      metafile: true,
      outfile: "plugin.js",
      sourcemap: "external",
      sourcesContent: false,
      logLevel: "silent",
      platform: "browser",
      conditions: ["module"],
      target: "esnext",
      // The engine runs jobs only after a call, so `async` becomes generators over src/promise.js.
      supported: { "async-await": false, "async-generator": false, "for-await": false },
      // Names stay, so that stacks have them.
      minifySyntax: true,
      minifyWhitespace: true,
      legalComments: "none",
      define: DEFINE,
      inject: INJECTED,
      plugins: [imports(isScript, promises), smaller],
      ...format,
    });
  } catch (error) {
    if (!error.errors) throw error;
    throw new BuildError(error.errors.map(message));
  }
  const [mapFile, codeFile] = result.outputFiles;
  const [output] = Object.values(result.metafile.outputs).filter(({ entryPoint }) => entryPoint);
  const used = (output?.imports ?? []).filter((one) => one.path.startsWith(PREFIX));
  return {
    code: codeFile.text,
    map: positions(JSON.parse(mapFile.text), directory),
    inputs: Object.entries(output?.inputs ?? {})
      .filter(([, { bytesInOutput }]) => bytesInOutput > 0)
      .map(([name]) => name),
    imports: [...new Set(used.map((one) => one.path.slice(PREFIX.length).split("/")[0]))].sort(),
  };
}

/** Files of this SDK and of packages lose their local names: no stack shows them. */
const smaller = {
  name: "smaller",
  setup(build) {
    build.onLoad({ filter: /\.m?js$/ }, async ({ path: file }) => {
      const inside = path.relative(path.join(SDK, "src"), file);
      if (inside.startsWith("..") && !file.includes("node_modules")) return undefined;
      const text = await readFile(file, "utf8");
      const { code } = await esbuild.transform(text, {
        minifyIdentifiers: true,
        target: "esnext",
        legalComments: "none",
      });
      return { contents: code, loader: "js" };
    });
  },
};

/** Interfaces of the host stay imports; modules of Node are mistakes. */
function imports(isScript, promises) {
  return {
    name: "windlass",
    setup(build) {
      build.onResolve({ filter: /^#host\// }, ({ path: name }) => {
        const short = name.slice("#host/".length);
        const to = { path: `${PREFIX}${short}/${short}@${VERSION}`, sideEffects: false };
        return isScript ? { ...to, namespace: "absent" } : { ...to, external: true };
      });
      const settle = path.join(SDK, "src", promises ? "promise.js" : "settle.js");
      build.onResolve({ filter: /^#settle$/ }, () => ({ path: settle, sideEffects: promises }));
      build.onLoad({ filter: /.*/, namespace: "absent" }, () => ({ contents: "module.exports = {}" }));
      build.onResolve({ filter: /^(node:)?[a-z_]+(\/.*)?$/ }, async ({ path: name, ...rest }) => {
        const bare = name.replace(/^node:/, "");
        if (rest.pluginData === SDK || !NODE.has(bare)) return undefined;
        if (!name.startsWith("node:")) {
          const { resolveDir, importer, kind } = rest;
          const found = await build.resolve(name, { resolveDir, importer, kind, pluginData: SDK });
          if (!found.errors.length) return found;
        }
        const text = `${name} is a module of Node.js, and a plugin runs without Node.js`;
        return { errors: [{ text }] };
      });
    },
  };
}

function message({ location, text, notes = [] }) {
  const more = notes.map((note) => ` (${note.text})`).join("");
  if (!location) return text + more;
  return at(location.file, location.line, location.column + 1, text + more);
}

/**
 * The map of a bundle, as `src/trace.js` reads it: a segment wherever the line of an author's file
 * changes, and none within packages.
 */
function positions({ mappings, sources }, directory) {
  const author = sources.map((source) => {
    const file = path.resolve(directory, source);
    const outside = path.relative(SDK, file).startsWith("..");
    return outside && !source.includes("node_modules/") && !source.includes("windlass-entry");
  });
  const kept = sources.filter((_, index) => author[index]);
  const segments = [];
  let last = [0, 0, 0, 0, 0];
  let before = "";
  decode(mappings).forEach((line, index) => {
    for (const [column, source, sourceLine, sourceColumn] of line) {
      const mine = author[source];
      const file = mine ? kept.indexOf(sources[source]) : -1;
      const key = mine ? `${file}:${sourceLine}` : "";
      if (key === before) continue;
      before = key;
      const next = [index + 1, column, file, ...(mine ? [sourceLine + 1, sourceColumn] : last.slice(3))];
      const down = next[0] - last[0];
      segments.push([down, down ? column : column - last[1], ...[2, 3, 4].map((n) => next[n] - last[n])]);
      last = next;
    }
  });
  return { sources: kept, segments: segments.join(";") };
}
