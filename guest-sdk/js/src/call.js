// Whether a call is under way, and which. The module of a plugin is evaluated once, when the
// component is built, and there is no host then.

let number = 0;
let active = false;

/** Begins a call. */
export function begin() {
  number += 1;
  active = true;
}

/** Ends it. */
export function end() {
  active = false;
}

/** The number of the current call of this instance; 0 outside of a call. */
export function current() {
  return active ? number : 0;
}

/** Refuses what needs the host where there is none. */
export function need(what) {
  if (!active) {
    throw new Error(
      `${what} needs the host, and there is none outside of a call: use it inside of run, accept or check`,
    );
  }
}
