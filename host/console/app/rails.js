// A workflow as rails: one row a node, from top to bottom, like `windlass workflow graph`. Each edge
// that has left its node and not yet reached its target is a rail. Bodies of for-each are below
// their node, within a dotted rail.

/**
 * @typedef {object} Edge
 * @property {string} from
 * @property {string} to
 * @property {string} port
 * @property {string} when the condition; empty: always
 *
 * @typedef {object} Row
 * @property {string} name
 * @property {any} node the node, as the file has it
 * @property {number} depth how many bodies contain it
 * @property {number} column
 * @property {[number, number, number][]} above lines of the upper half: from column, to column, kind
 * @property {[number, number, number][]} below lines of the lower half
 * @property {Edge[]} leaving
 * @property {Edge[]} arriving
 * @property {Set<Edge>} backward those of `leaving` that lead upwards
 */

/** Columns that are drawn; further rails are cut off at the edge of the drawing. */
export const MOST_COLUMNS = 24;

/** Kinds of lines. */
export const PLAIN = 0;
export const BODY = 1;

/**
 * The edges of a file, in their three forms.
 * @param {any} edges
 * @returns {Edge[]}
 */
export function edgesOf(edges) {
  if (!Array.isArray(edges)) return [];
  const found = [];
  for (const edge of edges) {
    if (typeof edge === "string") {
      const at = edge.indexOf(": ");
      found.push(at < 0 ? short(edge, "") : short(edge.slice(0, at), edge.slice(at + 2).trim()));
    } else if (edge && typeof edge === "object") {
      const [key] = Object.keys(edge);
      if (typeof edge.from === "string" && typeof edge.to === "string") {
        found.push({ from: edge.from, to: edge.to, port: edge.port ?? "done", when: text(edge.when) });
      } else if (key?.includes("->")) found.push(short(key, text(edge[key])));
    }
  }
  return found;
}

/** @param {unknown} when */
const text = (when) => (when === undefined || when === null || when === true ? "" : String(when));

/**
 * @param {string} ends
 * @param {string} when
 * @returns {Edge}
 */
function short(ends, when) {
  const [left = "", to = ""] = ends.split("->").map((part) => part.trim());
  const dot = left.indexOf(".");
  return dot < 0
    ? { from: left, to, port: "done", when }
    : { from: left.slice(0, dot), to, port: left.slice(dot + 1), when };
}

/**
 * The label of an edge: its port and its condition.
 * @param {Edge} edge
 */
export function label(edge) {
  const parts = [];
  if (edge.port === "*") parts.push("on any answer");
  else if (edge.port !== "done") parts.push(`on ${edge.port}`);
  if (edge.when === "else") parts.push("else");
  else if (edge.when) parts.push(`if ${edge.when}`);
  return parts.join(", ");
}

/**
 * What a node does, in a few words.
 * @param {any} node
 */
export function kind(node) {
  if (!node || typeof node !== "object") return "";
  if (typeof node.use === "string") return node.use;
  if ("for-each" in node) return "for each";
  if ("workflow" in node) return `workflow ${String(node.workflow)}`;
  if ("wait" in node) return `wait ${typeof node.wait === "string" ? node.wait : ""}`.trim();
  if ("event" in node) {
    const event = node.event?.event ?? node.event;
    return `event ${typeof event === "string" ? event : ""}`.trim();
  }
  if ("set" in node) return `set ${Object.keys(node.set ?? {}).join(", ")}`;
  if ("end" in node) return node.end?.terminate ? "end, terminates" : "end";
  if ("fail" in node) return "fail";
  return "";
}

/**
 * The rows of a workflow file.
 * @param {any} file
 * @returns {Row[]}
 */
export function rows(file) {
  /** @type {Row[]} */
  const all = [];
  part(file ?? {}, 0, [], all);
  return all;
}

/**
 * Appends the rows of a workflow or of a body.
 * @param {any} body
 * @param {number} depth
 * @param {[number, number][]} outer columns that pass by, with the kinds of their lines
 * @param {Row[]} all
 */
function part(body, depth, outer, all) {
  const nodes = body.nodes && typeof body.nodes === "object" ? body.nodes : {};
  const edges = edgesOf(body.edges);
  const { order, backward } = ordered(nodes, edges);
  const start = outer.reduce((most, [column]) => Math.max(most, column + 1), 0);
  const leaving = group(edges, (edge) => edge.from);
  const arriving = group(edges, (edge) => edge.to);
  /** For each column, the node that its rail leads to. @type {(string | null)[]} */
  const rails = [];
  const passing = outer.map(([column, line]) => /** @type {[number, number, number]} */ ([column, column, line]));
  const held = () => {
    /** @type {[number, number][]} */
    const columns = [];
    rails.forEach((target, at) => target !== null && columns.push([start + at, PLAIN]));
    return columns;
  };
  for (const name of order) {
    const out = leaving.get(name) ?? [];
    const forward = out.filter((edge) => !backward.has(edge));
    const above = [...passing];
    /** @type {number[]} */
    const arrived = [];
    rails.forEach((target, at) => {
      if (target === name) arrived.push(at);
    });
    const column = arrived[0] ?? free(rails, 0);
    rails.forEach((target, at) => {
      if (target === null) return;
      above.push([start + at, target === name ? start + column : start + at, PLAIN]);
    });
    for (const at of arrived) rails[at] = null;
    const below = [...passing];
    rails.forEach((target, at) => target !== null && below.push([start + at, start + at, PLAIN]));
    const targets = [...new Set(forward.map((edge) => edge.to))];
    for (const target of targets) {
      // A rail that leads there already takes this edge, too.
      let at = rails.indexOf(target);
      if (at < 0) {
        at = rails[column] == null ? column : free(rails, column + 1);
        while (rails.length <= at) rails.push(null);
        rails[at] = target;
      }
      below.push([start + column, start + at, PLAIN]);
    }
    const cut = (/** @type {[number, number, number][]} */ lines) =>
      lines.filter(([from, to]) => Math.min(from, to) < MOST_COLUMNS);
    all.push({
      name,
      node: nodes[name],
      depth,
      column: Math.min(start + column, MOST_COLUMNS - 1),
      above: cut(above),
      below: cut(below),
      leaving: out,
      arriving: arriving.get(name) ?? [],
      backward: new Set(out.filter((edge) => backward.has(edge))),
    });
    if (nodes[name] && typeof nodes[name] === "object" && nodes[name].nodes) {
      const inside = [...outer, ...held()];
      const most = inside.reduce((most, [at]) => Math.max(most, at), start + column);
      part(nodes[name], depth + 1, [...inside, [most + 1, BODY]], all);
    }
  }
}

/**
 * The first free column at or after `from`.
 * @param {(string | null)[]} rails
 * @param {number} from
 */
function free(rails, from) {
  let at = from;
  while (at < rails.length && rails[at] !== null) at++;
  return at;
}

/**
 * @template T
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @returns {Map<string, T[]>}
 */
function group(items, key) {
  /** @type {Map<string, T[]>} */
  const groups = new Map();
  for (const item of items) {
    const found = groups.get(key(item));
    if (found) found.push(item);
    else groups.set(key(item), [item]);
  }
  return groups;
}

/**
 * The nodes in an order in which forward edges lead downwards, and the backward edges. The walk
 * goes in depth first, without recursion: a workflow may be a chain of ten thousand nodes.
 * @param {Record<string, any>} nodes
 * @param {Edge[]} edges
 */
function ordered(nodes, edges) {
  const leaving = group(edges, (edge) => edge.from);
  const entered = new Set(edges.map((edge) => edge.to));
  const names = Object.keys(nodes);
  const marked = names.filter((name) => nodes[name]?.start === true);
  const entries = [...marked, ...names.filter((name) => !entered.has(name)), ...names];
  const seen = new Set();
  const open = new Set();
  /** @type {string[]} */
  const finished = [];
  /** @type {Set<Edge>} */
  const backward = new Set();
  for (const entry of entries) {
    if (seen.has(entry)) continue;
    seen.add(entry);
    open.add(entry);
    const stack = [{ name: entry, left: leaving.get(entry)?.length ?? 0 }];
    for (let top = stack.at(-1); top; top = stack.at(-1)) {
      if (top.left === 0) {
        stack.pop();
        open.delete(top.name);
        finished.push(top.name);
        continue;
      }
      // The last edge first, so that the branches come out in the order of the file.
      top.left -= 1;
      const edge = /** @type {Edge} */ (leaving.get(top.name)?.[top.left]);
      if (open.has(edge.to)) backward.add(edge);
      else if (!seen.has(edge.to)) {
        seen.add(edge.to);
        open.add(edge.to);
        stack.push({ name: edge.to, left: leaving.get(edge.to)?.length ?? 0 });
      }
    }
  }
  return { order: finished.reverse().filter((name) => Object.hasOwn(nodes, name)), backward };
}
