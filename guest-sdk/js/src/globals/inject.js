// Globals that the engine lacks and that are large. The build replaces uses of these names, so a
// component has only those that it uses. The other files of this folder are taken in by name.

import { deserialize, serialize } from "@ungap/structured-clone";
import { URL, URLSearchParams } from "whatwg-url-minimum";
import { Headers, Response, fetch } from "../http.js";
import { crypto } from "../random.js";
import { TextDecoder, TextEncoder } from "../text.js";

const structuredClone = (value) => deserialize(serialize(value));

export { Headers, Response, TextDecoder, TextEncoder, URL, URLSearchParams, crypto, fetch, structuredClone };
export {
  Headers as "globalThis.Headers",
  Response as "globalThis.Response",
  TextDecoder as "globalThis.TextDecoder",
  TextEncoder as "globalThis.TextEncoder",
  URL as "globalThis.URL",
  URLSearchParams as "globalThis.URLSearchParams",
  crypto as "globalThis.crypto",
  fetch as "globalThis.fetch",
  structuredClone as "globalThis.structuredClone",
};
