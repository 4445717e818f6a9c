// The sources of the console: `node sources.mjs APP`. The types in their comments hold, and the
// stored libraries are those of npm, byte for byte.

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [app] = process.argv.slice(2);
const here = dirname(fileURLToPath(import.meta.url));
const packages = join(here, "node_modules");

/** The stored files, with the files of the packages. */
const STORED = {
  "preact.mjs": "preact/dist/preact.mjs",
  "hooks.mjs": "preact/hooks/dist/hooks.mjs",
  "preact.LICENSE.txt": "preact/LICENSE",
  "htm.mjs": "htm/dist/htm.mjs",
  "htm.LICENSE.txt": "htm/LICENSE",
};

for (const [stored, original] of Object.entries(STORED)) {
  const same = readFileSync(join(app, "vendor", stored)).equals(readFileSync(join(packages, original)));
  if (!same) throw new Error(`vendor/${stored} is not ${original} of the package`);
}

const options = {
  compilerOptions: {
    checkJs: true,
    allowJs: true,
    noEmit: true,
    strict: true,
    target: "es2023",
    module: "es2022",
    moduleResolution: "bundler",
    lib: ["es2023", "dom", "dom.iterable"],
    types: [],
    skipLibCheck: true,
    baseUrl: ".",
    paths: {
      preact: ["node_modules/preact/src/index.d.ts"],
      "preact/hooks": ["node_modules/preact/hooks/src/index.d.ts"],
      htm: ["node_modules/htm/dist/htm.d.ts"],
    },
  },
  include: [join(app, "*.js")],
};
const project = join(here, "tsconfig.json");
writeFileSync(project, JSON.stringify(options));
const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
const { status } = spawnSync(process.execPath, [compiler, "--project", project, "--pretty", "false"], { stdio: "inherit" });
process.exit(status ?? 1);
