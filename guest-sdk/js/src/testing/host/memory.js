import { encode } from "../../data.js";
import { here, refuse } from "../world.js";

export function get(path) {
  if (!/^(input|vars|nodes)(\.|$)/.test(path)) refuse("invalid-path", path);
  const { memory } = here();
  return Object.hasOwn(memory, path) ? encode(memory[path]) : undefined;
}
