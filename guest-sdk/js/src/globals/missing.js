// Globals that QuickJS lacks, and StarlingMonkey has.

import { deserialize, serialize } from "@ungap/structured-clone";
import { URL, URLSearchParams } from "whatwg-url-minimum";
import { TextDecoder, TextEncoder } from "../text.js";

const structuredClone = (value) => deserialize(serialize(value));

export { TextDecoder, TextEncoder, URL, URLSearchParams, structuredClone };
export {
  TextDecoder as "globalThis.TextDecoder",
  TextEncoder as "globalThis.TextEncoder",
  URL as "globalThis.URL",
  URLSearchParams as "globalThis.URLSearchParams",
  structuredClone as "globalThis.structuredClone",
};
