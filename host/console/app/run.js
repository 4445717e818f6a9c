// The page of a run: what it did, what it does, what it waits for, and why it failed.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Actions } from "./actions.js";
import { address } from "./api.js";
import { Chart } from "./chart.js";
import { states } from "./history.js";
import { html } from "./html.js";
import { NodePane, RunPane } from "./inspector.js";
import { Code, Copy, Loading, Stale, Time, Trouble, useNow, useTitle } from "./kit.js";
import { LiveRun } from "./live.js";
import { rows } from "./rails.js";
import { Link, adjust } from "./route.js";
import { Status } from "./status.js";
import { ms, took } from "./time.js";

/**
 * A run that is followed while the page shows it.
 * @param {string} id
 */
function useLive(id) {
  const [, redraw] = useState(0);
  const [run, setRun] = useState(/** @type {LiveRun | null} */ (null));
  useEffect(() => {
    const live = new LiveRun(id);
    const call = () => redraw(live.changes);
    live.listeners.add(call);
    setRun(live);
    return () => live.close();
  }, [id]);
  return run?.id === id ? run : null;
}

/**
 * @param {{ id: string, query: URLSearchParams }} props
 */
export function RunPage({ id, query }) {
  const run = useLive(id);
  const shown = run?.shown;
  useTitle(shown ? `${shown.run.workflow} ${id.slice(0, 8)}` : "Run");
  if (run?.error && !shown) return html`<main><h1>Run</h1><${Trouble} error=${run.error} again=${() => run.again()} /></main>`;
  if (!run || !shown) return html`<main><${Loading} lines=${8} /></main>`;
  return html`<${Loaded} run=${run} changes=${run.changes} query=${query} />`;
}

/**
 * @param {{ run: LiveRun, changes: number, query: URLSearchParams }} props
 */
function Loaded({ run, changes, query }) {
  const now = useNow(run.isFinal ? 0 : 250);
  const file = run.file;
  const list = useMemo(() => (file ? rows(file) : []), [file]);
  const found = useMemo(
    () => states(run.history, run.triggers, { begun: run.begun, isFinal: run.isFinal }),
    [run, changes],
  );
  const selected = query.get("node");
  const row = list.find((it) => it.name === selected);
  const pane = useRef(/** @type {HTMLElement | null} */ (null));
  const select = (/** @type {string | null} */ node, /** @type {string | null} */ no = null) =>
    adjust({ node, execution: no }, { replace: true });
  return html`<main class="run">
    <${Head} run=${run} now=${now} />
    <${Stale} since=${run.isFinal ? null : run.staleSince} />
    <${Failure} run=${run} select=${select} />
    <div class="split">
      <section class="chart" aria-label="Nodes and their times">
        ${run.fileError && html`<${Trouble} error=${run.fileError} />`}
        ${file
          ? html`<${Chart} run=${run} changes=${changes} rows=${list} states=${found} now=${now}
              selected=${selected} select=${select} enter=${() => pane.current?.focus()} />`
          : !run.fileError && html`<${Loading} lines=${6} />`}
        ${run.history.isFull && html`<p class="note">The run has more executions than this page keeps: the newest ${run.history.all.size} are shown.</p>`}
      </section>
      <aside class="pane" ref=${pane} tabindex="-1" aria-label="Details">
        ${row
          ? html`<${NodePane} key=${row.name} run=${run} changes=${changes} row=${row} now=${now}
              state=${found.get(row.name)} no=${query.get("execution")} select=${select} />`
          : html`<${RunPane} run=${run} now=${now} />`}
      </aside>
    </div>
  </main>`;
}

/**
 * @param {{ run: LiveRun, now: number }} props
 */
function Head({ run, now }) {
  const head = run.shown.run;
  const end = head.finished ? ms(head.finished) : now;
  const tags = Object.entries(head.tags ?? {});
  return html`<header class="head">
    <nav aria-label="Place"><${Link} to=${["runs"]}>Runs<//> / <${Link} to=${["runs"]} query=${{ workflow: head.workflow }}>${head.workflow || "unnamed"}<//></nav>
    <div class="title">
      <h1>${head.workflow || "unnamed"}</h1>
      <${Status} status=${head.status} />
      <${Actions} run=${run} />
    </div>
    <dl class="facts">
      <div><dt>Run</dt><dd><${Copy} text=${head.id} shown=${head.id.slice(0, 13)} /></dd></div>
      ${run.shown.version !== null && html`<div><dt>Version</dt><dd><${Link} to=${["workflows", head.workflow]} query=${{ version: String(run.shown.version) }}>${run.shown.version}<//></dd></div>`}
      <div><dt>Created</dt><dd><${Time} at=${head.created} now=${now} /></dd></div>
      <div><dt>${head.finished ? "Took" : "For"}</dt><dd>${took(end - ms(head.created))}</dd></div>
      <div><dt>Executions</dt><dd>${run.history.all.size}${run.isWhole ? "" : "…"}</dd></div>
      ${head.correlation && html`<div><dt>Correlation</dt><dd><${Link} to=${["runs"]} query=${{ correlation: head.correlation }}>${head.correlation}<//></dd></div>`}
      ${head.parent && html`<div><dt>Called by</dt><dd><${Link} to=${["runs", head.parent]}>${head.parent.slice(0, 13)}<//></dd></div>`}
      ${run.shown.imported && html`<div><dt>Imported</dt><dd>${run.shown.imported}</dd></div>`}
      ${tags.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>
        <${Link} to=${["runs"]} query=${{ tag: `${name}=${value}` }}>${value}<//></dd></div>`)}
    </dl>
  </header>`;
}

/**
 * Why the run has failed, and where.
 * @param {{ run: LiveRun, select: (node: string | null, no?: string | null) => void }} props
 */
function Failure({ run, select }) {
  const failure = run.shown.run.failure;
  if (!failure) return null;
  const at = failed(run, failure);
  return html`<section class="failure" aria-label="Why the run has failed">
    <p><strong>${failure.message}</strong></p>
    <p><${Code} code=${failure.code} /> <span class="dim">${failure.class}</span>
      ${at && html`<button type="button" onClick=${() => select(at.node, at.no)}>Show the node ${at.node}</button>`}</p>
  </section>`;
}

/**
 * The execution that made a run fail: the last one with its failure, or else the last one that
 * failed.
 * @param {LiveRun} run
 * @param {any} failure
 */
function failed(run, failure) {
  let last = null;
  let same = null;
  for (const execution of run.history.all.values()) {
    if (execution.status !== "failed") continue;
    if (!last || execution.to >= last.to) last = execution;
    const is = execution.failure?.code === failure.code && execution.failure.message === failure.message;
    if (is && (!same || execution.to >= same.to)) same = execution;
  }
  return same ?? last;
}

/** The address of the whole run as a file. @param {string} id */
export const exported = (id) => address(`api/v1/runs/${id}/export`);
