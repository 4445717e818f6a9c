// Requests to the API of the host, and its problems.

import { parse } from "./json.js";

/** The root of the console: every address is relative to it, so a proxy may add a prefix. */
export const root = new URL(document.baseURI);

/** The root of the host. */
const host = new URL("../", root);

/**
 * An answer that is no success.
 */
export class Problem extends Error {
  /**
   * @param {number} status 0: the host cannot be reached
   * @param {{ code?: string, detail?: string, help?: string, title?: string, errors?: { pointer?: string, detail?: string, help?: string, code?: string }[] }} body
   */
  constructor(status, body) {
    super(body.detail ?? body.title ?? "The request failed.");
    this.status = status;
    this.code = body.code;
    this.help = body.help;
    this.errors = body.errors ?? [];
  }
}

/** @type {Set<() => void>} */
const strangers = new Set();

/**
 * Calls back when the host asks for a login.
 * @param {() => void} call
 */
export function onStranger(call) {
  strangers.add(call);
  return () => strangers.delete(call);
}

/**
 * The address of a path of the host, like `api/v1/runs`.
 * @param {string} path without a slash at its beginning
 * @param {Record<string, string | number | boolean | undefined | null>} [query]
 */
export function address(path, query = {}) {
  const url = new URL(path, host);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") {
      url.searchParams.append(name, String(value));
    }
  }
  return url.href;
}

/**
 * Sends a request, and returns the JSON of its answer.
 * @param {string} method
 * @param {string} path
 * @param {{ query?: Record<string, any>, body?: string, signal?: AbortSignal, headers?: Record<string, string> }} [options]
 *   `body` is JSON as text, so that it keeps the digits of its author
 * @returns {Promise<any>}
 */
export async function send(method, path, { query, body, signal, headers = {} } = {}) {
  /** @type {Response} */
  let answer;
  try {
    answer = await fetch(address(path, query), {
      method,
      signal,
      body,
      headers: body === undefined ? headers : { "Content-Type": "application/json", ...headers },
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, {
      detail: "The host does not answer.",
      help: "It may be restarting. The page asks again by itself.",
    });
  }
  const text = await answer.text();
  if (answer.ok) return text === "" ? null : parse(text);
  if (answer.status === 401) for (const call of strangers) call();
  let problem = {};
  try {
    problem = JSON.parse(text);
  } catch {
    problem = { detail: `The answer has the status ${answer.status}.` };
  }
  throw new Problem(answer.status, problem);
}

/**
 * @param {string} path
 * @param {Record<string, any>} [query]
 * @param {AbortSignal} [signal]
 */
export const get = (path, query, signal) => send("GET", path, { query, signal });
