import { here } from "../world.js";

export function write(level, message, fields) {
  here().log.push({ level, message, fields: Object.fromEntries(fields) });
}
