// `node --import windlass/typescript --test` runs sources and tests in TypeScript.

import { register } from "node:module";

register("./loader.js", import.meta.url);
