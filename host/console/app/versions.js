// The versions of a workflow, and the difference of two of them.

import { useMemo } from "preact/hooks";
import { get } from "./api.js";
import { diff, hunks } from "./diff.js";
import { html } from "./html.js";
import { write } from "./json.js";
import { Listing, Loading, Pages, Time, Trouble, useData, useNow, useTitle } from "./kit.js";
import { Link, adjust } from "./route.js";

/** How often the list is read, in milliseconds. */
const EACH_MS = 10_000;

/** Versions of a page. */
const LIMIT = 20;

/** Lines of a difference that are shown. */
const LINES = 3_000;

/** The words of a changed line, for people who do not see its colour. */
const WORDS = { same: "", removed: "removed: ", added: "added: ", cut: "" };

/** The sign of a line. */
const SIGNS = { same: " ", removed: "−", added: "+", cut: "⋯" };

/**
 * @param {{ name: string, query: URLSearchParams }} props
 */
export function VersionsPage({ name, query }) {
  useTitle(`Versions of ${name}`);
  const now = useNow(30_000);
  const cursor = query.get("cursor");
  const found = useData(
    (signal) => get("api/v1/definitions", { workflow: name, retracted: true, limit: LIMIT, cursor }, signal), `${name} ${cursor}`, EACH_MS);
  const items = found.data?.items ?? [];
  const to = Number(query.get("to")) || items[0]?.version;
  const from = Number(query.get("from")) || (to > 1 ? to - 1 : 0);
  return html`<main><nav class="place" aria-label="Place"><${Link} to=${["workflows"]}>Workflows<//> / <${Link} to=${["workflows", name]}>${name}<//></nav>
    <div class="title"><h1>Versions of ${name}</h1></div>
    <${Listing} found=${found} empty="There is no such workflow.">
      <div class="wide"><table>
        <thead><tr><th scope="col" class="right">Version</th><th scope="col">Published</th><th scope="col">State</th>
          <th scope="col">Definition</th><th scope="col">Changes</th></tr></thead>
        <tbody>${items.map((/** @type {any} */ it) => html`<tr key=${it.version} class=${it.version === to ? "chosen" : ""}>
          <td class="right"><${Link} to=${["workflows", name]} query=${{ version: String(it.version) }}>${it.version}<//></td>
          <td><${Time} at=${it.published} now=${now} /></td>
          <td>${it.retracted ? html`until <${Time} at=${it.retracted} now=${now} />` : html`<span class="tone-good">published</span>`}</td>
          <td><code>${it.definition.slice(0, 19)}</code></td>
          <td><span class="does">${it.version > 1 && html`<button type="button" class="link" onClick=${() => adjust({ from: null, to: String(it.version) })}>
            since version ${it.version - 1}</button>`}
            ${it.version !== items[0].version && html`<button type="button" class="link"
              onClick=${() => adjust({ from: String(it.version), to: String(items[0].version) })}>until version ${items[0].version}</button>`}</span></td></tr>`)}</tbody>
      </table></div>
    <//>
    <${Pages} cursor=${cursor} next=${found.data?.next} first="Newest" more="Older" />
    ${from > 0 && to > 0 && html`<${Difference} key=${`${from} ${to}`} name=${name} from=${from} to=${to} />`}
    ${items.length === 1 && from === 0 && html`<p class="note">It is the only version so far.</p>`}
  </main>`;
}

/**
 * @param {{ name: string, from: number, to: number }} props
 */
function Difference({ name, from, to }) {
  const { data, error, again } = useData(async (signal) => {
    const path = `api/v1/definitions/${encodeURIComponent(name)}`;
    const read = async (/** @type {string} */ of) => Promise.all([from, to].map((version) => get(`${path}${of}`, { version }, signal)));
    const texts = (await read("/text")).map((it) => it.text);
    // JSON that a program has sent may be one line.
    const typed = texts.every((text) => text !== null && !text.trimStart().startsWith("{"));
    const shown = typed ? texts : (await read("")).map((it) => write(it.file));
    return { typed, lines: shown.map((it) => it.split("\n")) };
  }, `${name} ${from} ${to}`);
  const lines = useMemo(() => (data ? hunks(diff(data.lines[0], data.lines[1])) : []), [data]);
  const changed = lines.some((line) => line.kind === "added" || line.kind === "removed");
  return html`<section class="part" aria-label="Difference"><h2>From version ${from} to version ${to}</h2>
    ${error && html`<${Trouble} error=${error} again=${again} />`}
    ${!data && !error && html`<${Loading} lines=${6} />`}
    ${data && !changed && html`<p class="note">The two are equal.</p>`}
    ${changed && html`<div class="wide diff" tabindex="0" role="region" aria-label="Changed lines"><table><tbody>
      ${lines.slice(0, LINES).map((line, at) => html`<tr key=${at} class=${line.kind}>
        <td class="number">${line.before ?? ""}</td><td class="number">${line.after ?? ""}</td>
        <td class="sign" aria-hidden="true">${SIGNS[line.kind]}</td>
        <td><span class="unseen">${WORDS[line.kind]}</span>${line.text}</td></tr>`)}</tbody></table></div>
      ${!data?.typed && html`<p class="note">One of the two was published without a text in YAML, so their definitions are compared, as JSON.</p>`}`}
    ${lines.length > LINES && html`<p class="note">${lines.length - LINES} more lines differ or are near.</p>`}
  </section>`;
}
