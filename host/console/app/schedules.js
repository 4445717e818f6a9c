// The schedules of all published workflows: when they start runs next, and how to stop or hurry them.

import { useState } from "preact/hooks";
import { get, send } from "./api.js";
import { html } from "./html.js";
import { Dialog, Listing, Loading, Pages, Time, Trouble, useCommand, useData, useNow, useTitle } from "./kit.js";
import { Link } from "./route.js";
import { ago, full } from "./time.js";

/** How often the list is read, in milliseconds. */
const EACH_MS = 10_000;

/** Schedules of a page. */
const LIMIT = 50;

/** Starts that are listed ahead. */
const AHEAD = 20;

/**
 * @param {{ query: URLSearchParams }} props
 */
export function SchedulesPage({ query }) {
  useTitle("Schedules");
  const now = useNow(1_000);
  const [cursor, workflow] = [query.get("cursor"), query.get("workflow")];
  const found = useData(
    (signal) => get("api/v1/schedules", { limit: LIMIT, cursor, workflow }, signal), JSON.stringify([cursor, workflow]), EACH_MS);
  const [ahead, setAhead] = useState(/** @type {any} */ (null));
  const page = found.data;
  return html`<main><div class="title"><h1>Schedules</h1></div>
    <p class="lead">Times at which workflows start by themselves, the soonest first.</p>
    <${Listing} found=${found} empty=${html`<p>No published workflow has a schedule. This is one, in the file of a workflow:</p>
      <pre tabindex="0">triggers:
  nightly: { cron: "0 2 * * *", timezone: Europe/Berlin }</pre>`}>
      <div class="wide"><table>
        <thead><tr><th scope="col">Workflow</th><th scope="col">Schedule</th><th scope="col">Times</th><th scope="col">Next start</th>
          <th scope="col">Last start</th><th scope="col">Actions</th></tr></thead>
        <tbody>${page?.items.map((/** @type {any} */ it) => html`<${Row} key=${it.schedule} schedule=${it} now=${now} again=${found.again}
          ahead=${() => setAhead(it)} />`)}</tbody>
      </table></div>
    <//>
    <${Pages} cursor=${cursor} next=${page?.next} first="Soonest" more="Later" />
    ${ahead && html`<${Ahead} schedule=${ahead} now=${now} onClose=${() => setAhead(null)} />`}
  </main>`;
}

/**
 * @param {{ schedule: any, now: number, again: () => void, ahead: () => void }} props
 */
function Row({ schedule, now, again, ahead }) {
  const { busy, error, run } = useCommand(again);
  const [started, setStarted] = useState(/** @type {string | null} */ (null));
  const path = `api/v1/schedules/${encodeURIComponent(schedule.schedule)}`;
  const post = (/** @type {string} */ name) => () => run(() => send("POST", `${path}/${name}`));
  const start = () => run(async () => setStarted((await send("POST", `${path}/fire`)).run));
  const paused = schedule.state === "paused";
  const name = html`<span class="unseen"> ${schedule.schedule}</span>`;
  return html`<tr>
    <td><${Link} to=${["workflows", schedule.workflow]}>${schedule.workflow}<//></td>
    <td>${schedule.key}</td><td><code>${schedule.rule}</code></td>
    <td>${paused ? html`<span class="tone-idle">paused since <${Time} at=${schedule.paused} now=${now} /></span>`
      : schedule.next === null ? html`<span class="dim">never again</span>`
        : html`<button type="button" class="link" title="All next starts" onClick=${ahead}>${ago(schedule.next, now)}</button>${" "}
          <span class="dim"><${Time} at=${schedule.next} now=${now} /></span>`}
      ${schedule.state === "retrying" && html`<br /><span class="tone-bad">could not start ${schedule.troubles === 1 ? "once" : `${schedule.troubles} times`}, tries again</span>`}</td>
    <td>${schedule.last ? html`<${Time} at=${schedule.last} now=${now} />` : html`<span class="dim">none yet</span>`}
      ${schedule.run && html` <${Link} to=${["runs", schedule.run]}>run<span class="unseen"> ${schedule.run.slice(0, 8)}</span><//>`}</td>
    <td><span class="does">
      <button type="button" disabled=${busy} onClick=${start}>Run now${name}</button>
      ${paused ? html`<button type="button" disabled=${busy} onClick=${post("unpause")}>Unpause${name}</button>`
        : html`<button type="button" disabled=${busy} onClick=${post("pause")}>Pause${name}</button>`}
      ${started && html`<span role="status"><${Link} to=${["runs", started]}>started ${started.slice(0, 8)}<//></span>`}
      ${error && html`<${Trouble} error=${error} />`}</span></td>
  </tr>`;
}

/**
 * The next starts of a schedule.
 * @param {{ schedule: any, now: number, onClose: () => void }} props
 */
function Ahead({ schedule, now, onClose }) {
  const path = `api/v1/definitions/${encodeURIComponent(schedule.workflow)}/next`;
  const { data, error, again } = useData((signal) => get(path, { trigger: schedule.key, count: AHEAD }, signal), schedule.schedule);
  return html`<${Dialog} title=${`Next starts of ${schedule.schedule}`} onClose=${onClose}>
    ${error && html`<${Trouble} error=${error} again=${again} />`}
    ${!data && !error && html`<${Loading} />`}
    ${data && html`<ol class="plain times">${data.items.map((/** @type {any} */ it) => html`<li key=${it.at}>
      ${full(it.at)} <span class="dim">${ago(it.at, now)}</span></li>`)}</ol>`}
  <//>`;
}
