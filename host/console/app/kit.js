// Parts that all pages share.

import { useEffect, useRef, useState } from "preact/hooks";
import { address } from "./api.js";
import { html } from "./html.js";
import { adjust } from "./route.js";
import { ago, brief, full } from "./time.js";

/**
 * The current time in epoch milliseconds, again after each interval.
 * @param {number} interval in milliseconds; 0: never again
 */
export function useNow(interval) {
  const [now, set] = useState(Date.now);
  useEffect(() => {
    if (interval === 0) return undefined;
    const timer = setInterval(() => set(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}

/**
 * Data that a page shows: loaded at once, and again after each interval while the page is visible.
 * Old data stay while new data load, and if loading fails.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {string} key other data for another key
 * @param {number} interval in milliseconds; 0: never again
 * @returns {{ data: T | null, error: any, staleSince: number | null, again: () => void }}
 */
export function useData(load, key, interval = 0) {
  const [state, set] = useState(
    /** @type {{ key: string, data: T | null, error: any, at: number | null }} */ ({ key, data: null, error: null, at: null }),
  );
  const [round, setRound] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    const ask = async () => {
      try {
        const data = await latest.current(abort.signal);
        if (abort.signal.aborted) return;
        set({ key, data, error: null, at: Date.now() });
      } catch (error) {
        if (abort.signal.aborted) return;
        set((before) => ({ key, data: before.key === key ? before.data : null, error, at: before.key === key ? before.at : null }));
      }
      if (interval > 0) timer = setTimeout(next, interval);
    };
    const next = () => {
      if (document.hidden) document.addEventListener("visibilitychange", next, { once: true });
      else ask();
    };
    ask();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", next);
    };
  }, [key, interval, round]);
  const mine = state.key === key ? state : { data: null, error: null, at: null };
  return {
    data: mine.data,
    error: mine.error,
    staleSince: mine.error && mine.data ? mine.at : null,
    again: () => setRound((before) => before + 1),
  };
}

/**
 * Sets the title of the window.
 * @param {string} title
 */
export function useTitle(title) {
  useEffect(() => {
    document.title = title === "" ? "Windlass" : `${title} · Windlass`;
  }, [title]);
}

/**
 * An instant, with the full time on hover.
 * @param {{ at: string, now: number, relative?: boolean }} props
 */
export function Time({ at, now, relative = false }) {
  return html`<time dateTime=${at} title=${full(at)}>${relative ? ago(at, now) : brief(at, now)}</time>`;
}

/**
 * A code of an error, as a link to its page.
 * @param {{ code: string }} props
 */
export function Code({ code }) {
  // Codes of plugins have no page.
  if (!/^WL-[A-Z]\d{3}$/.test(code)) return html`<code>${code}</code>`;
  return html`<a class="code" href=${address(`errors/${code}`)} target="_blank" rel="noreferrer"><code>${code}</code></a>`;
}

/**
 * A request that failed.
 * @param {{ error: any, again?: () => void }} props
 */
export function Trouble({ error, again }) {
  return html`<div class="trouble" role="alert">
    <p><strong>${error.message}</strong> ${error.code && html`<${Code} code=${error.code} />`}</p>
    ${error.help && html`<p>${error.help}</p>`}
    ${error.errors?.length > 0 && html`<ul>${error.errors.slice(0, 20).map(
      (/** @type {any} */ mistake, /** @type {number} */ at) => html`<li key=${at}>
        ${mistake.pointer && html`<code>${mistake.pointer}</code>`} ${mistake.detail} ${mistake.help}</li>`,
    )}</ul>`}
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

/**
 * A line that says since when the data are old.
 * @param {{ since: number | null }} props
 */
export function Stale({ since }) {
  const now = useNow(since === null ? 0 : 1000);
  if (since === null) return null;
  return html`<p class="stale" role="status">
    Stale since ${brief(new Date(since).toISOString(), now)}: the host does not answer. The page goes on by itself.
  </p>`;
}

/**
 * A list that is loaded: its content, or that it is empty, loading, failed or stale.
 * @param {{ found: { data: any, error: any, staleSince: number | null, again: () => void }, empty: any, children?: any }} props
 */
export function Listing({ found, empty, children }) {
  const { data, error, staleSince, again } = found;
  if (!data) return error ? html`<${Trouble} error=${error} again=${again} />` : html`<${Loading} lines=${6} />`;
  return html`<${Stale} since=${staleSince} />
    ${data.items.length > 0 ? children : html`<div class="empty">${typeof empty === "string" ? html`<p>${empty}</p>` : empty}</div>`}`;
}

/**
 * The ways to other pages of a list.
 * @param {{ cursor: string | null, next: string | undefined, first?: string, more?: string }} props
 */
export function Pages({ cursor, next, first = "First", more = "More" }) {
  if (!cursor && !next) return null;
  return html`<nav class="pages" aria-label="Pages">
    ${cursor && html`<button type="button" onClick=${() => adjust({ cursor: null })}>${first}</button>`}
    ${next && html`<button type="button" onClick=${() => adjust({ cursor: next })}>${more}</button>`}
  </nav>`;
}

/**
 * A command that a person gives. One runs at a time; its problem stays until the next one.
 * @param {() => void} [done] called after a success
 */
export function useCommand(done) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const run = async (/** @type {() => Promise<unknown>} */ command, /** @type {() => void} */ then = () => {}) => {
    setBusy(true);
    setError(null);
    try {
      await command();
      then();
      done?.();
    } catch (problem) {
      setError(problem);
    }
    setBusy(false);
  };
  return { busy, error, run };
}

/** Grey bars, after a moment. @param {{ lines?: number }} props */
export function Loading({ lines = 4 }) {
  const [seen, set] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => set(true), 200);
    return () => clearTimeout(timer);
  }, []);
  return html`<div class="loading" role="status" aria-label="Loading">
    ${seen && Array.from({ length: lines }, (_, at) => html`<span key=${at}></span>`)}
  </div>`;
}

/**
 * A window above the page. `onClose` is called however it closes.
 * @param {{ title: string, onClose: () => void, children?: any }} props
 */
export function Dialog({ title, onClose, children }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => ref.current?.showModal(), []);
  return html`<dialog ref=${ref} aria-label=${title} onClose=${onClose}>
    <header><h2>${title}</h2>
      <button type="button" class="quiet" onClick=${() => ref.current?.close()}>Close</button></header>
    ${children}
  </dialog>`;
}

/**
 * A text to copy.
 * @param {{ text: string, shown?: string }} props
 */
export function Copy({ text, shown = text }) {
  const [copied, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      set(true);
      setTimeout(() => set(false), 1500);
    } catch {
      set(false);
    }
  };
  return html`<button type="button" class="copy" title=${`Copy ${text}`} onClick=${copy}>
    <code>${shown}</code><span aria-live="polite">${copied ? " copied" : ""}</span></button>`;
}
