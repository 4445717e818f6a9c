// The published workflows, and the page of one: its graph, what starts it, and the form for a run.

import { useMemo, useRef, useState } from "preact/hooks";
import { get, send } from "./api.js";
import { fields, json } from "./form.js";
import { html } from "./html.js";
import { write } from "./json.js";
import { Dialog, Listing, Loading, Pages, Stale, Time, Trouble, useData, useNow, useTitle } from "./kit.js";
import { Nodes } from "./nodes.js";
import { kind, label, rows } from "./rails.js";
import { Link, adjust, go, href } from "./route.js";
import { full } from "./time.js";
import { Value } from "./value.js";

/** How often the pages are read, in milliseconds. */
const EACH_MS = 10_000;

/** Workflows of a page. */
const LIMIT = 50;

/**
 * @param {{ query: URLSearchParams }} props
 */
export function WorkflowsPage({ query }) {
  useTitle("Workflows");
  const now = useNow(30_000);
  const cursor = query.get("cursor");
  const found = useData(
    (signal) => get("api/v1/definitions", { check: true, limit: LIMIT, cursor }, signal), `workflows ${cursor}`, EACH_MS);
  const page = found.data;
  return html`<main><div class="title"><h1>Workflows</h1></div>
    <${Listing} found=${found} empty=${html`<p>No workflow is published. This command publishes one:</p>
      <pre tabindex="0">windlass workflow publish hello.yaml</pre>`}>
      <div class="wide"><table>
        <thead><tr><th scope="col">Workflow</th><th scope="col" class="right">Version</th><th scope="col">Published</th>
          <th scope="col">Runs</th><th scope="col">Can run here</th></tr></thead>
        <tbody>${page?.items.map((/** @type {any} */ it) => html`<tr key=${it.workflow}>
          <td><${Link} to=${["workflows", it.workflow]}>${it.workflow}<//></td>
          <td class="right">${it.version}</td><td><${Time} at=${it.published} now=${now} /></td>
          <td><${Link} to=${["runs"]} query=${{ workflow: it.workflow }}>Runs of ${it.workflow}<//></td>
          <td>${it.mistakes === null ? html`<span class="dim">not known</span>`
            : it.mistakes.length === 0 ? "yes" : html`<span class="tone-bad">no: ${it.mistakes[0].detail}</span>`}</td></tr>`)}</tbody></table></div>
    <//>
    <${Pages} cursor=${cursor} next=${page?.next} />
  </main>`;
}

/**
 * @param {{ name: string, query: URLSearchParams }} props
 */
export function WorkflowPage({ name, query }) {
  useTitle(name);
  const path = `api/v1/definitions/${encodeURIComponent(name)}`;
  const version = query.get("version");
  const found = useData((signal) => get(path, { version }, signal), `workflow ${name} ${version}`, EACH_MS);
  if (found.error && !found.data) return html`<main><h1>${name}</h1><${Trouble} error=${found.error} again=${found.again} /></main>`;
  if (!found.data) return html`<main><h1>${name}</h1><${Loading} lines=${8} /></main>`;
  return html`<${Loaded} name=${name} path=${path} shown=${found.data} stale=${found.staleSince} query=${query} />`;
}

/**
 * @param {{ name: string, path: string, shown: any, stale: number | null, query: URLSearchParams }} props
 */
function Loaded({ name, path, shown, stale, query }) {
  const { file, version } = shown;
  const now = useNow(30_000);
  const published = !version.retracted;
  const times = useData((signal) => (published ? get(`${path}/next`, { count: 5 }, signal) : Promise.resolve(null)),
    `next ${path} ${version.version} ${published}`, EACH_MS);
  const list = useMemo(() => rows(file), [version.definition]);
  const selected = query.get("node");
  const row = list.find((it) => it.name === selected);
  const pane = useRef(/** @type {HTMLElement | null} */ (null));
  const [starts, setStarts] = useState(false);
  const select = (/** @type {string | null} */ node) => adjust({ node }, { replace: true });
  const mistakes = times.data?.mistakes ?? [];
  return html`<main class="run">
    <header class="head">
      <nav aria-label="Place"><${Link} to=${["workflows"]}>Workflows<//></nav>
      <div class="title"><h1>${name}</h1><div class="actions">
        <${Link} class="button" to=${["workflows", name]} query=${{ view: "versions" }}>Versions<//>
        <${Link} class="button" to=${["runs"]} query=${{ workflow: name }}>Its runs<//>
        ${published ? html`<button type="button" class="primary" onClick=${() => setStarts(true)}>Start a run</button>`
          : html`<${Link} class="button" to=${["workflows", name]}>The published version<//>`}</div></div>
      ${file.description && html`<p class="dim">${file.description}</p>`}
      <dl class="facts"><div><dt>Version</dt><dd>${version.version}</dd></div>
        <div><dt>Published</dt><dd><${Time} at=${version.published} now=${now} /></dd></div>
        ${version.retracted && html`<div><dt>Replaced or retracted</dt><dd><${Time} at=${version.retracted} now=${now} /></dd></div>`}</dl>
    </header>
    <${Stale} since=${stale} />
    ${mistakes.length > 0 && html`<${Trouble} error=${{ message: "Runs of this workflow cannot begin on this host.", errors: mistakes }} />`}
    <div class="split">
      <section class="chart" aria-label="Nodes">
        <${Nodes} rows=${list} selected=${selected} select=${select} enter=${() => pane.current?.focus()} status=${() => "node"} />
      </section>
      <aside class="pane" ref=${pane} tabindex="-1" aria-label="Details">
        ${row ? html`<${NodePane} key=${row.name} row=${row} select=${select} />`
          : html`<div class="inside"><h2 class="unseen">The workflow as a whole</h2>
            ${published ? html`<${Triggers} name=${name} triggers=${shown.triggers} times=${times.data?.items ?? []} now=${now} />`
              : html`<p class="note">This version is not published: nothing starts it.</p>`}
            ${file.input && html`<${Value} label="Schema of the input" value=${file.input} file=${`${name}-input`} />`}
            ${file.output !== undefined && html`<${Value} label="Output" value=${file.output} file=${`${name}-output`} />`}
            <${Value} label="Definition" value=${file} file=${name} />
            <${Source} path=${path} version=${version.version} /></div>`}
      </aside>
    </div>
    ${starts && html`<${Start} name=${name} schema=${file.input} onClose=${() => setStarts(false)} />`}
  </main>`;
}

/**
 * The text that a version was published as, comments and all, when it is opened.
 *
 * @param {{ path: string, version: number }} props
 */
function Source({ path, version }) {
  const [open, setOpen] = useState(false);
  const { data, error, again } = useData((signal) => (open ? get(`${path}/text`, { version }, signal) : Promise.resolve(null)),
    `text ${path} ${version} ${open}`);
  return html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary>Text as published</summary>
    ${error && html`<${Trouble} error=${error} again=${again} />`}
    ${open && !data && !error && html`<${Loading} lines=${4} />`}
    ${data && (data.text === null ? html`<p class="note">This version was published without a text.</p>` : html`<pre tabindex="0">${data.text}</pre>`)}
  </details>`;
}

/**
 * @param {{ name: string, triggers: any[], times: any[], now: number }} props
 */
function Triggers({ name, triggers, times, now }) {
  if (triggers.length === 0) return html`<p class="note">No trigger starts this workflow: people and programs do.</p>`;
  return html`<section><h3>Triggers</h3><ul class="plain">${triggers.map((it) => html`<li key=${it.key}>
    <strong>${it.key}</strong> ${it.event && html`at the event <code>${it.event}</code>`}
    ${it.next && html`next <${Time} at=${it.next} now=${now} relative=${true} />`}
    ${it.paused && html`<span class="tone-idle">paused since <${Time} at=${it.paused} now=${now} /></span>`}
    ${it.run && html` <${Link} to=${["runs", it.run]}>the last run<//>`}</li>`)}</ul>
    ${times.length > 0 && html`<h3>Next starts</h3><ul class="plain">${times.slice(0, 10).map((it, at) => html`<li key=${at}>
      ${full(it.at)} <span class="dim">${it.trigger}</span></li>`)}</ul>
      <p><${Link} to=${["schedules"]} query=${{ workflow: name }}>Pause or run them now<//></p>`}</section>`;
}

/**
 * @param {{ row: import("./rails.js").Row, select: (node: string | null) => void }} props
 */
function NodePane({ row, select }) {
  return html`<div class="inside"><header class="node-head"><h2>${row.name}</h2>
      <button type="button" class="quiet" onClick=${() => select(null)}>Close</button></header>
    <p class="dim">${[row.node?.title, kind(row.node)].filter(Boolean).join(" · ")}</p>
    ${row.node?.description && html`<p>${row.node.description}</p>`}
    <${Edges} row=${row} select=${select} />
    <${Value} label="Configuration" value=${row.node?.nodes ? { ...row.node, nodes: undefined, edges: undefined } : row.node} file=${row.name} />
  </div>`;
}

/**
 * The edges of a node, with their conditions.
 * @param {{ row: import("./rails.js").Row, select: (node: string | null) => void }} props
 */
export function Edges({ row, select }) {
  if (row.arriving.length + row.leaving.length === 0) return null;
  const line = (/** @type {import("./rails.js").Edge} */ edge, /** @type {string} */ other, /** @type {string} */ word, /** @type {number} */ at) =>
    html`<li key=${`${word}${at}`}>${word} <button type="button" class="link" onClick=${() => select(other)}>${other}</button>
      <span class="dim"> ${label(edge)}</span></li>`;
  return html`<section><h3>Edges</h3><ul class="plain">
    ${row.arriving.slice(0, 50).map((edge, at) => line(edge, edge.from, "from", at))}
    ${row.leaving.slice(0, 50).map((edge, at) => line(edge, edge.to, "to", at))}
  </ul></section>`;
}

/** A key by which a repeated request finds the run of the first one. */
const key = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * The form for a run: fields by the schema of the input, or JSON.
 * @param {{ name: string, schema: any, onClose: () => void }} props
 */
function Start({ name, schema, onClose }) {
  const known = useMemo(() => fields(schema), [schema]);
  const [typed, setTyped] = useState(/** @type {Record<string, string>} */ ({}));
  const [text, setText] = useState(/** @type {string | null} */ (known ? null : ""));
  const [correlation, setCorrelation] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  // One key for the window: a second click starts no second run.
  const once = useRef(key());
  /** The input as JSON; empty: none. */
  const input = () => {
    if (text !== null) {
      if (text.trim() !== "") JSON.parse(text);
      return text.trim();
    }
    const members = (known ?? []).flatMap((field) => {
      const value = json(field, typed[field.name] ?? "");
      return value === null ? [] : [`${JSON.stringify(field.name)}: ${value}`];
    });
    return `{${members.join(", ")}}`;
  };
  const change = (/** @type {string} */ field, /** @type {string} */ value) => {
    once.current = key();
    setTyped((before) => ({ ...before, [field]: value }));
  };
  const asJson = () => {
    try {
      setText(input());
      setError(null);
    } catch (problem) {
      setError(problem);
    }
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setError(null);
    let body;
    try {
      const given = input();
      const parts = [`"workflow":${JSON.stringify(name)}`];
      if (given !== "") parts.push(`"input":${given}`);
      if (correlation.trim() !== "") parts.push(`"correlation":${JSON.stringify(correlation.trim())}`);
      body = `{${parts.join(",")}}`;
    } catch (problem) {
      setError({ message: /** @type {Error} */ (problem).message });
      return;
    }
    setBusy(true);
    try {
      const started = await send("POST", "api/v1/runs", { body, headers: { "Idempotency-Key": once.current } });
      go(href(["runs", started.id]));
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${`Start ${name}`} onClose=${onClose}><form onSubmit=${submit}>
    ${text !== null
      ? html`<label>Input, as JSON<textarea rows="10" spellcheck="false" value=${text} placeholder="empty: no input"
          onInput=${(/** @type {any} */ event) => { once.current = key(); setText(event.target.value); }}></textarea></label>`
      : known?.map((field) => html`<${Input} key=${field.name} field=${field} value=${typed[field.name] ?? ""}
          change=${(/** @type {string} */ value) => change(field.name, value)} />`)}
    <div class="buttons">${known && (text === null
      ? html`<button type="button" class="quiet" onClick=${asJson}>As JSON</button>`
      : html`<button type="button" class="quiet" onClick=${() => setText(null)}>As fields</button>`)}</div>
    <label>Correlation<input value=${correlation} maxlength="256" placeholder="none" spellcheck="false"
      onInput=${(/** @type {any} */ event) => { once.current = key(); setCorrelation(event.target.value); }} /></label>
    ${error && html`<${Trouble} error=${error} />`}
    <div class="buttons"><button type="submit" class="primary" disabled=${busy}>${busy ? "Starting…" : "Start"}</button>
      <button type="button" onClick=${onClose}>Leave it</button></div>
  </form><//>`;
}

/**
 * @param {{ field: import("./form.js").Field, value: string, change: (value: string) => void }} props
 */
function Input({ field, value, change }) {
  const preset = field.preset === undefined ? "" : typeof field.preset === "string" ? field.preset : write(field.preset);
  const on = (/** @type {any} */ event) => change(event.target.value);
  const control = () => {
    switch (field.kind) {
      case "choice":
        return html`<select value=${value} onChange=${on} required=${field.required && preset === ""}>
          <option value="">${preset === "" ? "" : `default: ${preset}`}</option>
          ${field.choices.map((choice, at) => html`<option key=${at} value=${String(at)}>${typeof choice === "string" ? choice : write(choice)}</option>`)}</select>`;
      case "boolean":
        return html`<select value=${value} onChange=${on} required=${field.required && preset === ""}>
          <option value="">${preset === "" ? "" : `default: ${preset}`}</option>
          <option value="true">true</option><option value="false">false</option></select>`;
      case "long":
      case "json":
        return html`<textarea rows=${field.kind === "long" ? 4 : 3} spellcheck=${field.kind === "long"} value=${value} onInput=${on}
          placeholder=${(preset && `default: ${preset}`) || (field.kind === "json" ? "JSON" : "")} required=${field.required && preset === ""}></textarea>`;
      default:
        return html`<input value=${value} onInput=${on} placeholder=${preset && `default: ${preset}`} required=${field.required && preset === ""}
          inputmode=${field.kind === "text" ? "text" : "decimal"} autocomplete="off" spellcheck="false" />`;
    }
  };
  return html`<label>${field.title}${field.required ? " (required)" : ""}${control()}
    ${field.description && html`<span>${field.description}</span>`}</label>`;
}
