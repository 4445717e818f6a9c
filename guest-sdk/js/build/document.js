// The description of a plugin, read from its bundle before there is a component.

import vm from "node:vm";
import { author } from "../src/trace.js";
import { BuildError, at } from "./errors.js";

const CAPABILITIES = ["http", "secrets", "events"];
const NAME = /^[a-z][a-z0-9-]{0,63}$/;
/** How long the modules of a plugin may take to evaluate: milliseconds. */
const EVALUATE_MS = 10_000;

/**
 * Evaluates the modules of a plugin, as the toolchain will.
 * @returns the description, and whether a node checks configurations
 */
export function evaluate({ code, map }) {
  // The engine has these two, and a context of Node has only the language.
  const context = vm.createContext({ atob, btoa });
  const script = new vm.Script(`${code}\nplugin`, { filename: "plugin.js" });
  globalThis.__windlass_map = map;
  try {
    const { document, checks } = script.runInContext(context, { timeout: EVALUATE_MS });
    return { description: JSON.parse(JSON.stringify(document())), checks: checks() };
  } catch (error) {
    const text = `the plugin cannot be loaded: ${error?.name ?? "thrown"}: ${error?.message ?? error}`;
    const place = error?.stack && author(error);
    throw new BuildError(place ? at(place.source, place.line, place.column, text) : text);
  } finally {
    delete globalThis.__windlass_map;
  }
}

/** Every rule that a description breaks. */
export function faults({ package: name, version, nodes = [], consumer }, { source }) {
  const found = [];
  if (!NAME.test(name)) {
    found.push(`package.json: the package is ${JSON.stringify(name)}: it has to be [a-z][a-z0-9-]*, at most 64 characters; set "windlass": { "package": … }`);
  }
  if (!/^\d+\.\d+\.\d+/.test(version ?? "")) {
    found.push(`package.json: version ${JSON.stringify(version)} is no semantic version such as "1.0.0"`);
  }
  if (!nodes.length && !consumer) {
    found.push(`${source}: there is neither a node nor a consumer: export const NAME = node({ … })`);
  }
  const seen = new Set();
  for (const node of nodes) {
    const say = (text) => found.push(`${source}: node ${node.name}: ${text}`);
    if (!NAME.test(node.name)) say("its name has to be [a-z][a-z0-9-]*, at most 64 characters");
    if (seen.has(node.name)) say("there are two nodes of this name");
    seen.add(node.name);
    if (node.ports && (!node.ports.length || node.ports.includes("error"))) {
      say("it needs a port, and `error` is the host's");
    }
    for (const capability of node.capabilities ?? []) {
      if (!CAPABILITIES.includes(capability)) {
        say(`there is no capability ${capability}; there are ${CAPABILITIES.join(", ")}`);
      }
    }
  }
  return found;
}

/** Parts of a description that are probably a mistake. */
export function warnings({ nodes = [] }, imports) {
  const asked = new Set(nodes.flatMap(({ capabilities }) => capabilities ?? []));
  const found = [];
  for (const [capability, name, use] of [
    ["http", "http", "fetch"],
    ["events", "events", "events"],
  ]) {
    const uses = imports.includes(name);
    if (asked.has(capability) && !uses) {
      found.push(`a node asks for the capability ${capability}, and the plugin never uses ${use}`);
    }
    if (uses && nodes.length && !asked.has(capability)) {
      found.push(
        `the plugin uses ${use}, and no node asks for it: add capabilities: ["${capability}"], so that operators see what to grant`,
      );
    }
  }
  if (asked.has("secrets") && !imports.includes("http")) {
    found.push("a node asks for the capability secrets, and the plugin never uses fetch");
  }
  return found;
}
