import { optional } from "../../data.js";
import { here } from "../world.js";

export function send({ match, input, ...stimulus }) {
  here().sent.push({ ...stimulus, match: optional(match), input: optional(input) });
}

export function schedule({ payload, ...trigger }) {
  here().scheduled.push({ ...trigger, payload: optional(payload) });
}
