// The definitions of a plugin's file.

export class Definition {
  constructor(kind, about) {
    if (typeof about === "function") about = { run: about };
    const method = kind === "node" ? "run" : "accept";
    if (typeof about?.[method] !== "function") {
      throw new TypeError(`${kind}({ … }) needs a function ${method}`);
    }
    this.kind = kind;
    Object.assign(this, about);
  }
}

/** A node type. The name of the export is its name: `toUpper` is `to-upper`. */
export function node(about) {
  return new Definition("node", about);
}

/** A trigger consumer; a plugin has one at most. */
export function consumer(about) {
  return new Definition("consumer", about);
}

/** The name of a node type from the name of its export. */
export function nodeName(name) {
  return name
    .replace(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replace(/_/g, "-")
    .toLowerCase();
}

/** The definitions among the exports of a plugin's file: `[name, definition]`. */
export function definitions(exports, kind) {
  return Object.entries(exports)
    .filter(([, value]) => value instanceof Definition && value.kind === kind)
    .map(([name, value]) => [value.name ?? nodeName(name), value, name]);
}
