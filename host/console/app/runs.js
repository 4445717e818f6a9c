// The list of runs. The address holds its filters and its page.

import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "./api.js";
import { html } from "./html.js";
import { Code, Loading, Stale, Time, Trouble, useData, useNow, useTitle } from "./kit.js";
import { Link, adjust, go, href } from "./route.js";
import { RUN_STATUSES, Status, isFinal, known } from "./status.js";
import { full, ms, took } from "./time.js";

/** How often the list is read, in milliseconds. */
const EACH_MS = 2_000;

/** Runs of a page. */
const LIMIT = 50;

/** The filters beside the status, by their names in the address. */
const FILTERS = [
  { name: "workflow", word: "Workflow", example: "order" },
  { name: "correlation", word: "Correlation", example: "order-17" },
  { name: "failure", word: "Failure code", example: "WL-R001" },
  { name: "tag", word: "Tag", example: "customer=c-1042" },
  { name: "parent", word: "Called by run", example: "id of a run" },
];

/** The parameters of a list that the API has as well. @param {URLSearchParams} query */
function asked(query) {
  /** @type {Record<string, string>} */
  const found = {};
  for (const name of ["status", "since", "until", "id", ...FILTERS.map((it) => it.name)]) {
    const value = query.get(name);
    if (value) found[name] = value;
  }
  // A prefix of an id excludes all other filters.
  return found.id ? { id: found.id } : found;
}

/**
 * @param {{ query: URLSearchParams }} props
 */
export function RunsPage({ query }) {
  useTitle("Runs");
  const filter = asked(query);
  const cursor = filter.id ? null : query.get("cursor");
  const key = JSON.stringify([filter, cursor]);
  const found = useData(
    (signal) => get("api/v1/runs", { ...filter, cursor, limit: LIMIT }, signal), key, EACH_MS);
  const counted = useData(
    (signal) => (filter.id ? Promise.resolve(null) : get("api/v1/runs", { ...filter, limit: 1, count: true }, signal)),
    JSON.stringify(filter));
  const { shown, fresh, show } = useSteady(found.data?.items ?? null, key);
  const now = useNow(shown?.some((run) => !isFinal(run.status)) ? 1000 : 10_000);
  const matching = counted.data?.matching;
  return html`<main>
    <div class="title"><h1>Runs</h1>
      ${matching && html`<span class="dim">${matching.exact ? matching.count.toLocaleString() : `${matching.count.toLocaleString()}+`}</span>`}</div>
    <${Filters} key=${JSON.stringify(filter)} query=${query} />
    <${Stale} since=${found.staleSince} />
    ${found.error && !found.data && html`<${Trouble} error=${found.error} again=${found.again} />`}
    ${!shown && !found.error && html`<${Loading} lines=${10} />`}
    ${shown && html`
      ${fresh > 0 && !cursor && html`<button type="button" class="fresh" onClick=${show}>${fresh} new ${fresh === 1 ? "run" : "runs"}</button>`}
      ${shown.length > 0
        ? html`<${Table} runs=${shown} now=${now} />`
        : html`<${Nothing} filtered=${Object.keys(filter).length > 0} page=${found.data} />`}
      <nav class="pages" aria-label="Pages">
        ${cursor && html`<button type="button" onClick=${() => adjust({ cursor: null })}>Newest</button>`}
        ${found.data?.searched_to && html`<span class="dim">Searched back to ${full(found.data.searched_to)}</span>`}
        ${found.data?.next && html`<button type="button" onClick=${() => adjust({ cursor: found.data.next })}>
          ${shown.length > 0 ? "Older" : "Search further back"}</button>`}
      </nav>`}
  </main>`;
}

/**
 * The runs of a page, whose rows do not move while someone reads them: known runs are updated at
 * once, and new ones are counted until `show`.
 * @param {any[] | null} items
 * @param {string} key
 */
function useSteady(items, key) {
  const [, redraw] = useState(0);
  const held = useRef({ key, ids: /** @type {string[] | null} */ (null) });
  if (held.current.key !== key) held.current = { key, ids: null };
  if (items && (held.current.ids === null || held.current.ids.length === 0)) {
    held.current.ids = items.map((run) => run.id);
  }
  const { ids } = held.current;
  if (!items || !ids) return { shown: null, fresh: 0, show: () => {} };
  const known = new Set(ids);
  return {
    shown: items.filter((run) => known.has(run.id)),
    fresh: items.filter((run) => !known.has(run.id)).length,
    show: () => {
      held.current.ids = items.map((run) => run.id);
      redraw((before) => before + 1);
    },
  };
}

/**
 * @param {{ query: URLSearchParams }} props
 */
function Filters({ query }) {
  const statuses = (query.get("status") ?? "").split(",").filter(Boolean);
  const set = (/** @type {Record<string, string | null>} */ changes) => adjust({ ...changes, cursor: null });
  const toggle = (/** @type {string} */ status) => {
    const next = statuses.includes(status) ? statuses.filter((it) => it !== status) : [...statuses, status];
    set({ status: next.join(","), id: null });
  };
  const active = FILTERS.filter((it) => query.get(it.name));
  const more = active.some((it) => it.name !== "workflow") || query.has("since") || query.has("until") || query.has("id");
  const field = (/** @type {{ name: string, word: string, example: string }} */ { name, word, example }) =>
    html`<label key=${name}>${word}<input type="search" name=${name} value=${query.get(name) ?? ""} placeholder=${example}
      spellcheck="false" autocomplete="off" onChange=${(/** @type {any} */ event) => set({ [name]: event.target.value.trim(), id: null })} /></label>`;
  const time = (/** @type {string} */ name, /** @type {string} */ word) =>
    html`<label>${word}<input type="datetime-local" step="1" name=${name} value=${local(query.get(name))}
      onChange=${(/** @type {any} */ event) => set({ [name]: instant(event.target.value), id: null })} /></label>`;
  return html`<form class="filters" role="search" aria-label="Runs" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <div class="chips" role="group" aria-label="Status">
      ${RUN_STATUSES.map((status) => html`<button type="button" key=${status} class="chip" aria-pressed=${statuses.includes(status)}
        onClick=${() => toggle(status)}><${Status} status=${status} /></button>`)}
    </div>
    ${field(FILTERS[0])}
    <details open=${more}><summary>More filters</summary><div class="fields">
      ${FILTERS.slice(1).map(field)}
      ${time("since", "Created from")}
      ${time("until", "Created before")}
      <label>Id begins with<input type="search" name="id" value=${query.get("id") ?? ""} placeholder="85e816d2" spellcheck="false" autocomplete="off"
        onChange=${(/** @type {any} */ event) => go(href(["runs"], { id: event.target.value.trim() }))} /></label>
    </div></details>
    ${[...query.keys()].length > 0 && html`<button type="button" class="quiet" onClick=${() => go(href(["runs"]))}>Clear</button>`}
  </form>`;
}

/** An instant for a field of local time. @param {string | null} text */
function local(text) {
  const at = new Date(text ?? "");
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** The instant of a field of local time. @param {string} text */
function instant(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? null : at.toISOString();
}

/**
 * @param {{ runs: any[], now: number, brief?: boolean }} props
 */
export function Table({ runs, now, brief = false }) {
  return html`<div class="wide"><table class="runs">
    <thead><tr><th scope="col">Status</th><th scope="col">Workflow</th><th scope="col">Run</th><th scope="col">Created</th>
      <th scope="col" class="right">Took</th><th scope="col">${brief ? "Failure" : "About"}</th></tr></thead>
    <tbody>${runs.map((run) => html`<${Row} key=${run.id} run=${run} now=${now} />`)}</tbody>
  </table></div>`;
}

/** @param {{ run: any, now: number }} props */
function Row({ run, now }) {
  const end = run.finished ? ms(run.finished) : now;
  /** @param {MouseEvent} event */
  const open = (event) => {
    const target = /** @type {Element} */ (event.target);
    if (target.closest("a, button") || String(getSelection()) !== "") return;
    go(href(["runs", run.id]));
  };
  return html`<tr class=${`status-${known(run.status).tone}`} onClick=${open}>
    <td><${Status} status=${run.status} /></td>
    <td>${run.workflow || html`<span class="dim">unnamed</span>`}</td>
    <td><${Link} to=${["runs", run.id]}><code>${run.id.slice(0, 13)}</code><//></td>
    <td><${Time} at=${run.created} now=${now} /></td>
    <td class="right">${took(end - ms(run.created))}</td>
    <td class="about">${run.failure
      ? html`<${Code} code=${run.failure.code} /> <span>${run.failure.message.slice(0, 300)}</span>`
      : html`${run.correlation && html`<span class="tag">${run.correlation}</span>`}
        ${Object.entries(run.tags ?? {}).slice(0, 4).map(([name, value]) => html`<span class="tag" key=${name}><span class="dim">${name}</span> ${value}</span>`)}`}</td>
  </tr>`;
}

/**
 * @param {{ filtered: boolean, page: any }} props
 */
function Nothing({ filtered, page }) {
  if (page?.next) return html`<p class="empty">No run among those that were searched.</p>`;
  if (filtered) return html`<p class="empty">No run fits these filters.</p>`;
  return html`<div class="empty"><p>There are no runs yet. These commands start one:</p>
    <pre tabindex="0">windlass workflow publish hello.yaml
windlass runs start hello --input '{"name": "Ada"}'</pre></div>`;
}
