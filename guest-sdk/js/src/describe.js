// The describe document; its format is in `wit/DESCRIBE.md`.

import { definitions } from "./define.js";

/**
 * The document. `about` has the package, and `schemas` by the name of the export, as the build
 * derived them from types; a schema in the definition takes precedence.
 */
export function describe(exports, { schemas = {}, ...about }) {
  const nodes = definitions(exports, "node").map(([name, node, exported]) => {
    const derived = schemas[exported] ?? {};
    const { title, description, icon, ports, capabilities, suspends, byReference, resources } = node;
    return {
      name,
      title,
      description: description ?? derived.description,
      icon,
      config: node.config ?? derived.config,
      input: node.input ?? derived.input,
      output: node.output ?? derived.output,
      ports,
      capabilities,
      suspends,
      "by-reference": byReference,
      resources: resources && {
        "memory-bytes": resources.memoryBytes,
        "deadline-ms": resources.deadlineMs,
        instance: resources.instance,
      },
    };
  });
  const [consumer] = definitions(exports, "consumer");
  return {
    windlass: 1,
    ...about,
    nodes: nodes.length ? nodes : undefined,
    consumer: consumer && { types: consumer[1].types ?? ["*"], routes: consumer[1].routes ?? [] },
  };
}
