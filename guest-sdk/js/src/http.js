// `fetch` over the host's bounded HTTP requests. A plugin reaches only what the operator granted.

import * as host from "#host/http";
import { need } from "./call.js";
import { asBytes, parse, text, utf8, wide } from "./data.js";
import { hostError } from "./failure.js";

const ERRORS = {
  denied: ["permanent", "is not granted"],
  invalid: ["invalid", "is malformed"],
  timeout: ["retryable", "got no answer in time"],
  "too-large": ["permanent", "answered more than the bytes allowed"],
  unreachable: ["retryable", "could not be reached"],
  "no-secret": ["permanent", "needs a secret that is unknown or not granted"],
  limit: ["permanent", "is over a limit"],
};

/** Names and values; names are compared without case. A value is a text or `{ secret: NAME }`. */
export class Headers {
  #values = new Map();

  constructor(init = {}) {
    const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const [name, value] of pairs) this.append(name, value);
  }
  append(name, value) {
    const key = String(name).toLowerCase();
    const before = this.#values.get(key);
    const joined = before !== undefined && typeof value !== "object" ? `${before}, ${value}` : value;
    this.#values.set(key, typeof joined === "object" && joined !== null ? joined : String(joined));
  }
  set(name, value) {
    this.delete(name);
    this.append(name, value);
  }
  get(name) {
    return this.#values.get(String(name).toLowerCase()) ?? null;
  }
  has(name) {
    return this.#values.has(String(name).toLowerCase());
  }
  delete(name) {
    this.#values.delete(String(name).toLowerCase());
  }
  forEach(each) {
    for (const [name, value] of this) each(value, name, this);
  }
  keys() {
    return this.#values.keys();
  }
  values() {
    return this.#values.values();
  }
  entries() {
    return this.#values.entries();
  }
  [Symbol.iterator]() {
    return this.#values.entries();
  }
}

const BODY = Symbol("body");

/** A response, with any status. */
export class Response {
  constructor(body, { status = 200, headers, url = "" } = {}) {
    this[BODY] = body ?? "";
    this.status = status;
    this.ok = status >= 200 && status < 300;
    this.headers = headers instanceof Headers ? headers : new Headers(headers);
    this.url = url;
  }
  async text() {
    const body = typeof this[BODY] === "string" ? this[BODY] : utf8(this[BODY]);
    return body.replace(/^\uFEFF/, "");
  }
  async json() {
    return parse(await this.text());
  }
  async bytes() {
    return typeof this[BODY] === "string" ? toUtf8(this[BODY]) : this[BODY];
  }
  async arrayBuffer() {
    return (await this.bytes()).slice().buffer;
  }
}

/** The body of a response, for the test kit. */
export function bodyOf(response) {
  return response[BODY];
}

/** Sends a request and waits for the response. Without a response it throws a `Failure`. */
export async function fetch(resource, init = {}) {
  need("fetch");
  const url = String(resource);
  const method = String(init.method ?? "GET").toUpperCase();
  const headers = new Headers(init.headers);
  const { body, timeoutMs, maxResponseBytes, maxRedirects } = init;
  const redirects = maxRedirects ?? (init.redirect && init.redirect !== "follow" ? 0 : 5);
  const request = {
    method: text(method),
    url: text(url),
    headers: [...headers].map(([name, value]) => ({
      name: text(name),
      value:
        typeof value === "string"
          ? { tag: "plain", val: text(value) }
          : { tag: "secret", val: text(value.secret) },
    })),
    body: content(body, headers),
    timeout: timeoutMs === undefined ? undefined : wide(timeoutMs, "timeoutMs"),
    maxResponseBytes:
      maxResponseBytes === undefined ? undefined : wide(maxResponseBytes, "maxResponseBytes"),
    maxRedirects: redirects,
  };
  let answer;
  try {
    answer = host.fetch(request);
  } catch (error) {
    throw hostError(`${method} ${withoutQuery(url)}`, "http", error, ERRORS);
  }
  return new Response(answer.body.val, { status: answer.status, headers: answer.headers, url });
}

function content(body) {
  if (body === undefined || body === null) return undefined;
  if (typeof body === "string") return { tag: "text", val: text(body) };
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return { tag: "bytes", val: asBytes(body) };
  return { tag: "text", val: text(body) };
}

function toUtf8(value) {
  return Uint8Array.from(unescape(encodeURIComponent(text(value))), (char) => char.charCodeAt(0));
}

/** A URL for messages: the query and the user may be confidential. */
function withoutQuery(url) {
  return url.replace(/[?#].*$/s, "").replace(/^([^/]*\/\/)[^/]*@/, "$1");
}
