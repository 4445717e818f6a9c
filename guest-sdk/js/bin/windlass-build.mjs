#!/usr/bin/env node
// Builds a plugin. The arguments, the output and the exit codes are in README.md.

import { run } from "../build/main.js";

process.exitCode = await run(process.argv.slice(2));
