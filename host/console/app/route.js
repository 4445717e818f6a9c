// The address of the page: it holds the whole view, so a link shows what its sender saw.

import { useEffect, useState } from "preact/hooks";
import { root } from "./api.js";
import { html } from "./html.js";

/**
 * @typedef {object} Route
 * @property {string[]} parts the path below the root, like `["runs", "0193…"]`
 * @property {URLSearchParams} query
 */

/** @returns {Route} */
function current() {
  const path = location.pathname.startsWith(root.pathname)
    ? location.pathname.slice(root.pathname.length)
    : "";
  const parts = path.split("/").filter((part) => part !== "");
  return { parts: parts.map(decoded), query: new URLSearchParams(location.search) };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @type {Set<() => void>} */
const listeners = new Set();
addEventListener("popstate", () => listeners.forEach((call) => call()));

/**
 * The address of a page of the console.
 * @param {string[]} parts
 * @param {Record<string, string | undefined | null>} [query]
 */
export function href(parts, query = {}) {
  const url = new URL(parts.map(encodeURIComponent).join("/"), root);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  return url.href;
}

/**
 * Goes to an address of the console. `replace` keeps the history as it is.
 * @param {string} to
 * @param {{ replace?: boolean }} [how]
 */
export function go(to, { replace = false } = {}) {
  if (to === location.href) return;
  if (replace) history.replaceState(null, "", to);
  else history.pushState(null, "", to);
  listeners.forEach((call) => call());
  if (!replace) scrollTo(0, 0);
}

/**
 * Changes parameters of the address and keeps the others; a value of null removes one.
 * @param {Record<string, string | null>} changes
 * @param {{ replace?: boolean }} [how]
 */
export function adjust(changes, how) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  go(url.href, how);
}

/** The current address, again whenever it changes. */
export function useRoute() {
  const [route, set] = useState(current);
  useEffect(() => {
    const call = () => set(current());
    listeners.add(call);
    return () => {
      listeners.delete(call);
    };
  }, []);
  return route;
}

/**
 * A link within the console.
 * @param {{ to: string[], query?: Record<string, string | undefined | null>, class?: string, title?: string, current?: boolean, children?: any }} props
 */
export function Link({ to, query, class: name, title, current: here, children }) {
  const target = href(to, query);
  /** @param {MouseEvent} event */
  const follow = (event) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(target);
  };
  return html`<a href=${target} class=${name} title=${title} aria-current=${here ? "page" : undefined}
    onClick=${follow}>${children}</a>`;
}
