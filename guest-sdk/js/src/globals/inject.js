// Globals over the host. The build replaces uses of these names and of those in `missing.js`, so a
// component has only those that it uses. The other files of this folder are taken in by name.

import { Headers, Response, fetch } from "../http.js";
import { crypto } from "../random.js";

export { Headers, Response, crypto, fetch };
export {
  Headers as "globalThis.Headers",
  Response as "globalThis.Response",
  crypto as "globalThis.crypto",
  fetch as "globalThis.fetch",
};
