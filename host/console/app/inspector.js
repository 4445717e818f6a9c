// What there is to know about a run as a whole, or about one of its nodes.

import { useEffect, useState } from "preact/hooks";
import { get } from "./api.js";
import { html } from "./html.js";
import { Code, Copy, Loading, Time, Trouble } from "./kit.js";
import { kind } from "./rails.js";
import { Link } from "./route.js";
import { Status } from "./status.js";
import { ago, brief, ms, size, took } from "./time.js";
import { Value } from "./value.js";
import { Edges } from "./workflows.js";

/** Executions of a node that are listed at first. */
const LISTED = 50;

/**
 * The run as a whole.
 * @param {{ run: import("./live.js").LiveRun, now: number }} props
 */
export function RunPane({ run, now }) {
  const { shown } = run;
  const vars = Object.keys(shown.vars ?? {}).length;
  return html`<div class="inside">
    <h2 class="unseen">The run as a whole</h2>
    <${Waits} run=${run} now=${now} />
    ${(shown.output !== null || shown.run.status === "completed") && html`<${Value} label="Output" value=${shown.output} file="output" />`}
    <${Value} label="Input" value=${shown.input} file="input" />
    ${vars > 0 && html`<${Value} label="Variables" value=${shown.vars} file="variables" />`}
    ${(shown.left_out ?? []).map((/** @type {any} */ item, /** @type {number} */ at) => html`<p class="note" key=${at}>
      ${item.name ? `The variable ${item.name}` : `A part of ${item.member}`} is too large for this page${item.bytes ? ` (${size(item.bytes)})` : ""}.
      ${item.path && html`<code>${item.path}</code> returns it.`}</p>`)}
    <${Sections} sections=${shown.mutexes} />
    <${Children} run=${run} now=${now} />
    <${Components} components=${shown.components} />
    <${Journal} entries=${shown.journal} now=${now} />
  </div>`;
}

/**
 * What the run waits for.
 * @param {{ run: import("./live.js").LiveRun, now: number, node?: string }} props
 */
function Waits({ run, now, node }) {
  const triggers = run.triggers.filter((it) => (node ? it.node === node : true) && it.state !== "claimed").slice(0, 20);
  const marks = node ? [] : run.bookmarks;
  if (run.isFinal || (triggers.length === 0 && marks.length === 0)) return null;
  return html`<section class="waits"><h3>Waits for</h3>
    <ul class="plain">
      ${marks.map((mark) => html`<li key=${mark.no} class="asked">
        <span>${mark.metadata?.message ?? html`the event <code>${mark.name}</code>`}</span>
        ${mark.expires && html`<span class="dim"> until ${brief(mark.expires, now)}</span>`}
        ${mark.link && html`<a class="button" href=${mark.link} target="_blank" rel="noreferrer">Answer</a>`}
      </li>`)}
      ${triggers.map((trigger, at) => html`<li key=${at}>${waiting(trigger, now, !node)}</li>`)}
    </ul></section>`;
}

/**
 * A pending trigger, in words.
 * @param {import("./history.js").Trigger} trigger
 * @param {number} now
 * @param {boolean} named
 */
function waiting(trigger, now, named) {
  const node = named && trigger.node ? html`<code>${trigger.node}</code>${" "}` : "";
  const due = trigger.due;
  if (trigger.state === "dead") return html`${node}is a dead letter`;
  if (trigger.type === "retry") return html`${node}tries again ${due ? ago(due, now) : ""} (attempt ${trigger.attempt})`;
  if (trigger.reason) return html`${node}cannot run: ${trigger.reason}`;
  if (trigger.state === "parked") return html`${node}waits${due ? html` until ${brief(due, now)} at the latest` : ""}`;
  if (due && ms(due) > now) return html`${node}goes on ${ago(due, now)}`;
  return html`${node}is due`;
}

/**
 * The components that the run uses.
 * @param {{ components: any[] }} props
 */
function Components({ components }) {
  if (components.length === 0) return null;
  return html`<section><h3>Components</h3><ul class="plain">
    ${components.map((it) => html`<li key=${it.node_type}><code>${it.node_type}</code>${" "}
      ${it.package ? html`<${Link} to=${["plugins", it.package]} query=${{ version: it.version }}>${it.package} ${it.version}<//>` : html`<span class="dim">not known here</span>`}${" "}
      <span class="dim"><${Copy} text=${it.digest} shown=${it.digest.slice(0, 19)} /></span></li>`)}
  </ul></section>`;
}

/** @param {{ sections: any[] }} props */
function Sections({ sections }) {
  if (!sections?.length) return null;
  return html`<section><h3>Critical sections</h3><ul class="plain">
    ${sections.map((it) => html`<li key=${it.mutex}><code>${it.mutex}</code>:
      ${it.holder ? html` <code>${it.holder.node}</code> is in it,` : ""} ${it.waiting.length + it.more} wait</li>`)}
  </ul></section>`;
}

/**
 * The runs that this run has called.
 * @param {{ run: import("./live.js").LiveRun, now: number }} props
 */
function Children({ run, now }) {
  const [page, set] = useState(/** @type {any} */ (null));
  const { id, status } = run.shown.run;
  useEffect(() => {
    const abort = new AbortController();
    get("api/v1/runs", { parent: id, limit: 20 }, abort.signal).then(set, () => {});
    return () => abort.abort();
  }, [id, status]);
  if (!page?.items.length) return null;
  return html`<section><h3>Called runs</h3><ul class="plain">
    ${page.items.map((/** @type {any} */ child) => html`<li key=${child.id}><${Status} status=${child.status} />${" "}
      <${Link} to=${["runs", child.id]}>${child.workflow} ${child.id.slice(0, 8)}<//> <span class="dim"><${Time} at=${child.created} now=${now} /></span></li>`)}
    ${page.next && html`<li><${Link} to=${["runs"]} query=${{ parent: id }}>all of them<//></li>`}
  </ul></section>`;
}

/** @param {{ entries: any[], now: number }} props */
function Journal({ entries, now }) {
  if (!entries?.length) return null;
  return html`<details class="journal"><summary>Journal, ${entries.length} ${entries.length === 1 ? "entry" : "entries"}</summary>
    <ol class="plain">${entries.slice(-200).map((entry, at) => html`<li key=${at}>
      <span class="dim"><${Time} at=${entry.at} now=${now} /></span> <strong>${entry.kind}</strong> ${detail(entry.detail)}</li>`)}</ol>
  </details>`;
}

/** @param {any} value */
function detail(value) {
  if (value === null || typeof value !== "object") return value === null ? "" : String(value);
  const members = Object.entries(value).filter(([, it]) => it !== null && typeof it !== "object");
  const parts = members.map(([name, it]) => `${name}: ${it}`);
  if (value.failure?.message) parts.push(`${value.failure.code}: ${value.failure.message}`);
  return parts.join(", ");
}

/**
 * A node with its executions.
 * @param {{
 *   run: import("./live.js").LiveRun, changes: number, row: import("./rails.js").Row, now: number,
 *   state: { status: string, due: string | null } | undefined, no: string | null,
 *   select: (node: string | null, no?: string | null) => void,
 * }} props
 */
export function NodePane({ run, row, now, state, no, select }) {
  const list = run.history.nodes.get(row.name) ?? [];
  const [most, setMost] = useState(LISTED);
  const chosen = list.find((it) => it.no === no) ?? list.at(-1);
  const listed = list.slice(-most).reverse();
  return html`<div class="inside">
    <header class="node-head"><h2>${row.name}</h2><${Status} status=${state?.status ?? "unreached"} />
      <button type="button" class="quiet" onClick=${() => select(null)}>Close</button></header>
    <p class="dim">${[row.node?.title, kind(row.node)].filter(Boolean).join(" · ")}</p>
    ${row.node?.description && html`<p>${row.node.description}</p>`}
    <${Waits} run=${run} now=${now} node=${row.name} />
    ${list.length > 1 && html`<div class="attempts" role="group" aria-label="Executions, the newest first">
      ${listed.map((it) => html`<button type="button" key=${it.no} class=${it === chosen ? "chosen" : ""}
        aria-pressed=${it === chosen} onClick=${() => select(row.name, it.no)}>
        <${Status} status=${it.status} /><span class="dim">${it.scope ? `item ${it.scope.item.join(".")} · ` : ""}attempt ${it.attempt} · ${took(it.took_us / 1000)}</span></button>`)}
      ${list.length > most && html`<button type="button" onClick=${() => setMost(most + 10 * LISTED)}>${list.length - most} more</button>`}
    </div>`}
    ${chosen
      ? html`<${ExecutionPane} key=${chosen.no} id=${run.id} execution=${chosen} now=${now} />`
      : html`<p class="note">The node has not run${state?.status === "skipped" ? ": no edge that leads to it was taken" : ""}.</p>`}
    <${Edges} row=${row} select=${select} />
    <${Value} label="Configuration" value=${row.node?.nodes ? { ...row.node, nodes: undefined, edges: undefined } : row.node} file=${row.name} />
  </div>`;
}

/**
 * One execution, with what its node got, its output and its log.
 * @param {{ id: string, execution: import("./history.js").Execution, now: number }} props
 */
function ExecutionPane({ id, execution, now }) {
  const [whole, set] = useState(/** @type {any} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [round, setRound] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setError(null);
    get(`api/v1/runs/${id}/executions/${execution.no}`, {}, abort.signal).then(set, (problem) => {
      if (!abort.signal.aborted) setError(problem);
    });
    return () => abort.abort();
  }, [id, execution.no, round]);
  const failure = execution.failure;
  return html`<section class="execution">
    <p class="dim">Attempt ${execution.attempt}, <${Time} at=${execution.started} now=${now} />, took ${took(execution.took_us / 1000)}</p>
    ${failure && html`<${FailurePane} failure=${failure} />`}
    ${error && html`<${Trouble} error=${error} again=${() => setRound(round + 1)} />`}
    ${!whole && !error && html`<${Loading} lines=${3} />`}
    ${whole?.scope && html`<p class="dim">Item ${whole.scope.item.join(", ")}</p>`}
    <${Given} label="Configuration that it got" given=${whole?.with} file=${`${execution.node}-with`} />
    <${Given} label="Input" given=${whole?.input} file=${`${execution.node}-input`} />
    ${whole?.output !== undefined && html`<${Value} label="Output" value=${whole.output} file=${execution.node} />`}
    ${whole?.logs?.length > 0 && html`<section class="log"><h3>Log</h3><ol class="plain" tabindex="0" role="region" aria-label="Log, lines">
      ${whole.logs.map((/** @type {any} */ line, /** @type {number} */ at) => html`<li key=${at} class=${`level-${line.level}`}>
        <span class="level">${line.level}</span> ${line.message} ${(line.fields ?? []).map(
          (/** @type {string[]} */ field, /** @type {number} */ index) => html`<span class="field" key=${index}>${field[0]}=${field[1]}</span>${" "}`)}</li>`)}
    </ol></section>`}
  </section>`;
}

/**
 * A value that a node got, or why it is not known.
 * @param {{ label: string, given: any, file: string }} props
 */
function Given({ label, given, file }) {
  if (!given) return null;
  if (given.missing !== undefined) return html`<p class="note">${label}: not known, because ${given.missing}.</p>`;
  return html`<${Value} label=${label} value=${given.value} file=${file} />`;
}

/** @param {{ failure: any }} props */
function FailurePane({ failure }) {
  const { position } = failure;
  return html`<section class="failure" aria-label="Failure">
    <p><strong>${failure.message}</strong></p>
    <p><${Code} code=${failure.code} /> <span class="dim">${failure.class}</span>
      ${position && html` <code>${position.source ?? "the configuration"}:${position.line}:${position.column}</code>`}</p>
    ${failure.details !== null && failure.details !== undefined && html`<${Value} label="Details" value=${failure.details} file="failure" />`}
    ${failure.stack && html`<details><summary>Stack</summary><pre tabindex="0">${failure.stack}</pre></details>`}
  </section>`;
}
