// Time. The engine has no clock of its own in a component.

import * as host from "#host/clock";
import { current } from "./call.js";

/** The wall clock, in milliseconds since 1970. While the component is built it is 1970. */
export function nowMs() {
  return current() ? Number(host.now()) : 0;
}

/** Milliseconds since a fixed moment before the call, with fractions; never goes back in a call. */
export function monotonicMs() {
  return current() ? Number(host.monotonicNs()) / 1e6 : 0;
}

const Engine = globalThis.Date;

/** `Date` by the clock of the host. */
export function Date(...given) {
  if (!new.target) return new Engine(nowMs()).toString();
  return Reflect.construct(Engine, given.length ? given : [nowMs()], new.target);
}
Date.prototype = Engine.prototype;
Date.now = nowMs;
Date.parse = Engine.parse;
Date.UTC = Engine.UTC;

export const performance = { now: monotonicMs, timeOrigin: 0 };
