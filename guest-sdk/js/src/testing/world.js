// What the fake host answers in the current call, and what it was asked to do.

let world;

/** The world of the current call. */
export function here() {
  if (!world) throw new Error("there is no host here: call the node by `call` of windlass/test");
  return world;
}

/** Begins a call in a world. */
export function enter(fresh) {
  if (world) throw new Error("a call is under way: await it before the next one");
  world = fresh;
}

/** Ends it. */
export function leave() {
  world = undefined;
}

/** An error of the host, as the toolchain throws it. */
export function refuse(tag, val) {
  throw { tag, val };
}
