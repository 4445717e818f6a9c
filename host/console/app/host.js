// The host: its program, its memory, and the processes that share its store.

import { get, send } from "./api.js";
import { html } from "./html.js";
import { Listing, Loading, Stale, Time, Trouble, useCommand, useData, useNow, useTitle } from "./kit.js";
import { size } from "./time.js";

/** How often the page is read, in milliseconds. */
const EACH_MS = 5_000;

/** Members that are listed. */
const LIMIT = 100;

/** A budget counts as nearly used from this part on. */
const HIGH = 0.85;

export function HostPage() {
  useTitle("Host");
  const now = useNow(5_000);
  const host = useData((signal) => get("api/v1/admin/host", {}, signal), "host", EACH_MS);
  const pause = useData((signal) => get("api/v1/admin/pause", {}, signal), "pause", EACH_MS);
  const members = useData((signal) => get("api/v1/admin/members", { limit: LIMIT }, signal), "members", EACH_MS);
  const shown = host.data;
  if (!shown) {
    return html`<main><h1>Host</h1>${host.error ? html`<${Trouble} error=${host.error} again=${host.again} />` : html`<${Loading} lines=${6} />`}</main>`;
  }
  return html`<main><div class="title"><h1>Host</h1><${Pause} state=${pause.data} again=${pause.again} /></div>
    <${Stale} since=${host.staleSince} />
    <dl class="facts">
      <div><dt>Windlass</dt><dd>${shown.version}</dd></div>
      <div><dt>State</dt><dd>${pause.data ? (pause.data.paused ? "paused" : "accepts work") : "…"}</dd></div>
      <div><dt>Executions in progress</dt><dd>${pause.data?.in_flight ?? "…"}</dd></div>
      <div><dt>Triggers due</dt><dd>${capped(shown.waiting.due)}</dd></div>
      <div><dt>Triggers due later</dt><dd>${capped(shown.waiting.pending)}</dd></div>
      <div><dt>Triggers parked</dt><dd class=${shown.waiting.parked > 0 ? "tone-bad" : ""}>${capped(shown.waiting.parked)}</dd></div>
      <div><dt>Started</dt><dd><${Time} at=${shown.started} now=${now} relative=${true} /></dd></div>
      <div><dt>Machine</dt><dd>${shown.os} ${shown.arch}, ${shown.processors} ${shown.processors === 1 ? "processor" : "processors"}</dd></div>
      <div><dt>Store</dt><dd>${shown.store ?? "not known"}</dd></div>
    </dl>
    <section class="part"><h2>Memory</h2>
      <p class="lead">Each budget bounds one kind of data. Work that needs more of it waits.</p>
      <div class="wide" tabindex="0" role="region" aria-label="Budgets of memory"><table>
        <thead><tr><th scope="col">Budget</th><th scope="col">Of</th><th scope="col" class="right">In use</th><th scope="col" class="right">Peak</th>
          <th scope="col" class="right">Bound</th><th scope="col">Use of the bound</th></tr></thead>
        <tbody>${shown.budgets.map((/** @type {any} */ it) => html`<${Budget} key=${it.name} budget=${it} />`)}</tbody>
      </table></div></section>
    <section class="part"><h2>Processes on this store</h2>
      <${Listing} found=${members} empty="No process is a member of the store.">
        <div class="wide" tabindex="0" role="region" aria-label="Processes"><table>
          <thead><tr><th scope="col">Process</th><th scope="col" class="right">Pid</th><th scope="col">Joined</th><th scope="col" class="right">Incarnation</th></tr></thead>
          <tbody>${members.data?.items.map((/** @type {any} */ it) => html`<tr key=${it.incarnation}>
            <td>${it.name} ${it.own && html`<span class="tag">this host</span>`}</td><td class="right">${it.pid}</td>
            <td><${Time} at=${it.joined} now=${now} relative=${true} /></td><td class="right">${it.incarnation}</td></tr>`)}</tbody>
        </table></div>
        ${members.data?.next && html`<p class="note">There are more: <code>GET /api/v1/admin/members</code> lists them.</p>`}
      <//></section>
  </main>`;
}

/** A count that ends at 10,000. @param {number} count */
export const capped = (count) => `${count.toLocaleString()}${count >= 10_000 ? "+" : ""}`;

/** @param {{ budget: any }} props */
function Budget({ budget }) {
  const part = (/** @type {number} */ bytes) => (budget.limit > 0 ? Math.min(1, bytes / budget.limit) : 0);
  const [used, peak] = [part(budget.used), part(budget.peak)];
  const percent = `${Math.round(used * 100)} %, peak ${Math.round(peak * 100)} %`;
  return html`<tr>
    <td><code>${budget.name}</code></td><td class="about">${budget.of}</td>
    <td class="right">${size(budget.used)}</td><td class="right">${size(budget.peak)}</td>
    <td class="right">${budget.limit > 0 ? size(budget.limit) : "none"}</td>
    <td>${budget.limit > 0 && html`<span class=${`use tone-${peak >= HIGH ? "warn" : "busy"}`}>
      <svg width="120" height="10" aria-hidden="true"><rect class="whole" width="120" height="10" rx="3" />
        <rect class="peak" width=${120 * peak} height="10" rx="3" /><rect class="now" width=${120 * used} height="10" rx="3" /></svg>
      <span class="dim">${percent}</span></span>`}</td>
  </tr>`;
}

/** @param {{ state: any, again: () => void }} props */
function Pause({ state, again }) {
  const { busy, error, run } = useCommand(again);
  if (!state) return null;
  const act = () => run(() => (state.paused
    ? send("POST", "api/v1/admin/unpause") : send("POST", "api/v1/admin/pause", { body: "{}" })));
  return html`<div class="actions"><button type="button" disabled=${busy} onClick=${act}
      title="A paused host finishes what it does, and begins nothing new">${state.paused ? "Unpause the host" : "Pause the host"}</button>
    ${error && html`<${Trouble} error=${error} />`}</div>`;
}
