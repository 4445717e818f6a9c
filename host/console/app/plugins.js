// The plugins of the host, the files that cannot be loaded, and the page of one plugin: its nodes with
// their schemas, and what the operator lets it do.

import { get } from "./api.js";
import { html } from "./html.js";
import { Code, Copy, Listing, Loading, Pages, Stale, Trouble, useData, useTitle } from "./kit.js";
import { Link } from "./route.js";
import { size, took } from "./time.js";
import { Value } from "./value.js";

/** How often the pages are read, in milliseconds. */
const EACH_MS = 10_000;

/** Plugins of a page. */
const LIMIT = 100;

/**
 * @param {{ query: URLSearchParams }} props
 */
export function PluginsPage({ query }) {
  useTitle("Plugins");
  const cursor = query.get("cursor");
  const found = useData((signal) => get("api/v1/plugins", { limit: LIMIT, cursor }, signal), `plugins ${cursor}`, EACH_MS);
  const failed = useData((signal) => get("api/v1/plugin-failures", { limit: LIMIT }, signal), "failures", EACH_MS);
  const awaited = useData((signal) => get("api/v1/compilations", { limit: LIMIT }, signal), "compilations", EACH_MS);
  const page = found.data;
  return html`<main><div class="title"><h1>Plugins</h1></div>
    <p class="lead">The WebAssembly components whose nodes workflows use.</p>
    ${failed.error && !found.error && html`<${Trouble} error=${failed.error} again=${failed.again} />`}
    <${Failures} page=${failed.data} />
    ${awaited.data?.items.length > 0 && html`<section class="part"><h2>Being compiled</h2><ul class="cards">
      ${awaited.data.items.map((/** @type {any} */ it) => html`<li key=${it.digest}><span class="what"><strong>${it.name ?? it.digest.slice(0, 19)}</strong> <span class="dim">${size(it.bytes)}</span></span><span class="dim">${it.running ? "the compiler works on it" : "waits for the compiler"}</span></li>`)}</ul></section>`}
    <${Listing} found=${found} empty=${html`<p>No plugin is loaded. A component that is put into the folder of plugins is loaded at once:</p>
      <pre tabindex="0">windlass plugin new shout</pre>`}>
      <div class="wide"><table>
        <thead><tr><th scope="col">Plugin</th><th scope="col">Version</th><th scope="col">Nodes</th><th scope="col">Effects</th>
          <th scope="col">State</th><th scope="col">Component</th></tr></thead>
        <tbody>${page?.items.map((/** @type {any} */ it) => html`<tr key=${`${it.package} ${it.version}`}>
          <td><${Link} to=${["plugins", it.package]} query=${{ version: it.version }}>${it.package}<//>
            ${it.title && html`<br /><span class="dim">${it.title}</span>`}</td>
          <td>${it.version}</td>
          <td class="about">${it.nodes.length > 0 ? it.nodes.join(", ") : html`<span class="dim">none</span>`}</td>
          <td><${Effects} pure=${it.pure} /></td>
          <td>${it.quarantined > 0 ? html`<span class="tone-bad">in quarantine for ${workflows(it.quarantined)}</span>` : "loaded"}
            ${it.consumer && html` <span class="tag">consumer</span>`}</td>
          <td><code>${it.digest.slice(0, 19)}</code></td></tr>`)}</tbody>
      </table></div>
    <//>
    <${Pages} cursor=${cursor} next=${page?.next} />
  </main>`;
}

/** @param {number} count */
const workflows = (count) => (count === 1 ? "one workflow" : `${count} workflows`);

/** @param {{ pure: boolean }} props */
const Effects = ({ pure }) => (pure
  ? html`<span title="It imports nothing by which it could change anything">none</span>`
  : html`<span title="It imports http or events">possible</span>`);

/**
 * The files that cannot be loaded.
 * @param {{ page: any }} props
 */
export function Failures({ page }) {
  if (!page?.items.length) return null;
  return html`<section class="part"><h2>Files that cannot be loaded <span class="count tone-bad">${page.items.length}${page.next ? "+" : ""}</span></h2>
    <ul class="cards">${page.items.map((/** @type {any} */ it) => html`<li key=${it.file}>
      <span class="what"><strong>${it.file}</strong> <${Code} code=${it.code} /><span class="message">${it.message.slice(0, 600)}</span></span>
      <span class="dim">${it.kept ? "its previous component stays in use" : "its nodes are missing"}</span></li>`)}</ul></section>`;
}

/** The proofs of the API, in words. */
const PROOFS = /** @type {Record<string, string>} */ ({
  library: "it is part of the node library", digest: "its digest is in the settings", signature: "it has a trusted signature",
  file: "its file is in the settings", none: "none: it gets no grants",
});

/** How long instances are reused, in words. */
const ISOLATION = /** @type {Record<string, string>} */ ({
  warm: "any call may reuse an instance", run: "calls of one run reuse an instance", call: "each call has its own instance",
});

/** @param {number} value */
const count = (value) => value.toLocaleString();

/** The limits of a call: the names of the API, in words. */
const LIMITS = /** @type {[string, string, (value: number) => string][]} */ ([
  ["memory_bytes", "Memory", size],
  ["deadline_ms", "Time", took],
  ["payload_bytes", "Input and output, each", size],
  ["http_requests", "HTTP requests", count],
  ["events", "Stimuli and triggers", count],
  ["event_bytes", "Their content", size],
  ["log_lines", "Log lines", count],
  ["log_bytes", "Log", size],
  ["blob_bytes", "Blobs", size],
  ["blob_writers", "Blobs at once", count],
  ["handles", "Handles at once", count],
  ["table_elements", "Table elements", count],
]);

/**
 * @param {{ name: string, query: URLSearchParams }} props
 */
export function PluginPage({ name, query }) {
  useTitle(name);
  const version = query.get("version");
  const path = `api/v1/plugins/${encodeURIComponent(name)}`;
  const found = useData((signal) => get(path, { version }, signal), `${name} ${version}`, EACH_MS);
  const shown = found.data;
  const place = html`<nav class="place" aria-label="Place"><${Link} to=${["plugins"]}>Plugins<//></nav>`;
  if (!shown) return html`<main>${place}<h1>${name}</h1>${found.error ? html`<${Trouble} error=${found.error} again=${found.again} />` : html`<${Loading} lines=${8} />`}</main>`;
  const { plugin, grants } = shown;
  const given = [
    ...grants.http.map((/** @type {string} */ it) => html`requests to <code>${it}</code>`),
    ...grants.secrets.map((/** @type {string} */ it) => html`the secret <code>${it}</code> in them`),
    grants.events && html`stimuli and triggers`,
    plugin.consumer && html`decisions about triggers, as a consumer`,
  ].filter(Boolean);
  return html`<main class="plugin">${place}
    <div class="title"><h1>${plugin.package}</h1><span class="dim">${plugin.version}</span></div>
    <${Stale} since=${found.staleSince} />
    ${(plugin.title || shown.description) && html`<p class="lead">${[plugin.title, shown.description].filter(Boolean).join(": ")}</p>`}
    <dl class="facts">
      <div><dt>Effects</dt><dd><${Effects} pure=${plugin.pure} /></dd></div>
      <div><dt>File</dt><dd>${shown.file}</dd></div>
      <div><dt>Component</dt><dd><${Copy} text=${plugin.digest} shown=${plugin.digest.slice(0, 19)} /></dd></div>
      ${shown.proof && html`<div><dt>Proof for its grants</dt><dd class=${shown.proof === "none" ? "tone-bad" : ""}>${PROOFS[shown.proof] ?? shown.proof}</dd></div>`}
      <div><dt>Instances</dt><dd>${ISOLATION[shown.isolation] ?? shown.isolation}</dd></div>
    </dl>
    ${shown.quarantine.length > 0 && html`<section class="failure" aria-label="Quarantine"><p><strong>In quarantine:</strong>${" "}its calls keep crashing in these workflows, so they are delayed.</p>
      <ul class="plain">${shown.quarantine.map((/** @type {any} */ it) => html`<li key=${it.workflow}>
        <${Link} to=${["workflows", it.workflow]}>${it.workflow}<//> for ${took(it.for_ms)}</li>`)}</ul></section>`}
    <div class="columns">
      <section class="part"><h2>Nodes</h2>
        ${shown.nodes.length === 0 && html`<p class="note">It has no nodes.</p>`}
        ${shown.nodes.map((/** @type {any} */ node) => html`<${Node} key=${node.id} node=${node} open=${shown.nodes.length === 1} />`)}</section>
      <div>
        <section class="part"><h2>Grants</h2>${given.length === 0
          ? html`<p class="note">None: it reaches nothing outside of its call.</p>`
          : html`<ul class="plain">${given.map((it, at) => html`<li key=${at}>${it}</li>`)}</ul>`}</section>
        <section class="part"><h2>Limits of a call</h2><table class="pairs"><tbody>${LIMITS.map(([key, word, write]) => html`<tr key=${key}>
          <th scope="row">${word}</th><td class="right">${write(shown.limits[key])}</td></tr>`)}</tbody></table></section>
        <section class="part"><h2>Imports</h2>${shown.imports.length === 0 ? html`<p class="note">None.</p>`
          : html`<ul class="plain mono">${shown.imports.slice(0, 100).map((/** @type {string} */ it) => html`<li key=${it}>${it}</li>`)}</ul>`}</section>
      </div>
    </div>
  </main>`;
}

/** @param {{ node: any, open: boolean }} props */
function Node({ node, open }) {
  return html`<details class="node" open=${open}><summary><strong>${node.id}</strong> <span class="dim">${node.title}</span></summary>
    <div class="inside">
      ${node.description && html`<p>${node.description}</p>`}
      <dl class="facts"><div><dt>Ports</dt><dd>${node.ports.join(", ")}</dd></div>
        ${node.capabilities.length > 0 && html`<div><dt>Asks for</dt><dd>${node.capabilities.join(", ")}</dd></div>`}
        ${node.suspends && html`<div><dt>Waits</dt><dd>it may wait for an event</dd></div>`}</dl>
      <${Value} label="Schema of the configuration" value=${node.config} file=${`${node.id}-config`} />
      <${Value} label="Schema of the input" value=${node.input} file=${`${node.id}-input`} />
      <${Value} label="Schema of the output" value=${node.output} file=${`${node.id}-output`} />
    </div></details>`;
}
