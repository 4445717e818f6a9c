// Hooks of Node.js: TypeScript loses its types, and `./file.js` finds `./file.ts`.

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { transform } from "esbuild";

const TYPESCRIPT = /\.[cm]?ts$/;

export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (error.code !== "ERR_MODULE_NOT_FOUND" || !specifier.startsWith(".")) throw error;
    const typed = /\.[cm]?js$/.test(specifier) ? specifier.replace(/js$/, "ts") : `${specifier}.ts`;
    return next(typed, context);
  }
}

export async function load(url, context, next) {
  if (!TYPESCRIPT.test(new URL(url).pathname)) return next(url, context);
  const file = fileURLToPath(url);
  const { code } = await transform(await readFile(file, "utf8"), {
    loader: "ts",
    sourcefile: file,
    sourcemap: "inline",
    target: "node20",
  });
  return { format: "module", shortCircuit: true, source: code };
}
