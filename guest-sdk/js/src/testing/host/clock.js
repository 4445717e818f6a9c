import { here } from "../world.js";

export const now = () => here().nowMs;
export const monotonicNs = () => (here().ticks += 1000);
