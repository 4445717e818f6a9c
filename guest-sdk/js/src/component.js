// The exports of a component, from the exports of a plugin's file and its description.

import { settle } from "#settle";
import { consumerError, disposition, finding, nodeError, outcome } from "./answer.js";
import { begin, end } from "./call.js";
import { Context } from "./context.js";
import { decode, optional } from "./data.js";
import { definitions } from "./define.js";
import { Failure } from "./failure.js";

// JSON of integers that a number cannot hold.
BigInt.prototype.toJSON = function () {
  return JSON.rawJSON(this.toString());
};

const settled = (value) => (typeof value?.then === "function" ? settle(value) : value);

function call(fail, work) {
  begin();
  try {
    return work();
  } catch (error) {
    throw fail(error);
  } finally {
    end();
  }
}

const describe = (document) => () => ({ body: { tag: "text", val: document } });

/** How a node type finds its definition. */
function finder(exports) {
  const byName = new Map(definitions(exports, "node").map(([name, node]) => [name, node]));
  const byType = new Map();
  return (type) => {
    const known = byType.get(type);
    if (known) return known;
    const found = byName.get(type.slice(type.indexOf("/") + 1));
    if (!found) throw new Failure("invalid", `this plugin has no node ${type}`);
    byType.set(type, found);
    return found;
  };
}

/** The export `windlass:node/node`. */
export function nodeExport(exports, document) {
  const find = finder(exports);
  return {
    describe: describe(document),
    execute: ({ nodeType, config, input }) =>
      call(nodeError, () => {
        const node = find(nodeType);
        return outcome(settled(node.run(decode(input), new Context(decode(config)))));
      }),
  };
}

/** The export `windlass:consumer/consumer`. */
export function consumerExport(exports, document) {
  const [[, decider]] = definitions(exports, "consumer");
  return {
    describe: describe(document),
    accept: ({ kind, node, payload }) =>
      call(consumerError, () => {
        const trigger = { kind, node: node ?? undefined, payload: optional(payload) ?? {} };
        return disposition(settled(decider.accept(trigger, new Context())));
      }),
  };
}

/** The export `windlass:check/check`. */
export function checkExport(exports) {
  const find = finder(exports);
  const fail = (error) => new Error(`the check failed: ${error.val?.message ?? error.tag}`);
  return {
    check: ({ nodeType, config, unknown }) =>
      call(
        (error) => fail(nodeError(error)),
        () => (settled(find(nodeType).check?.(decode(config), unknown)) ?? []).map(finding),
      ),
  };
}
