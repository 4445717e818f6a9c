// What needs attention: runs that wait for people, failures, dead letters, a host that is paused. What
// is fine says so in one line.

import { useState } from "preact/hooks";
import { get, send } from "./api.js";
import { capped } from "./host.js";
import { html } from "./html.js";
import { Code, Loading, Stale, Time, Trouble, useData, useNow, useTitle } from "./kit.js";
import { about, why } from "./letters.js";
import { Failures as Files } from "./plugins.js";
import { Link } from "./route.js";
import { brief } from "./time.js";

/** How often the page is read, in milliseconds. */
const EACH_MS = 10_000;

/** Items of each part. */
const LIMIT = 20;

/** How far back failures count, in milliseconds: a day. */
const BACK_MS = 24 * 60 * 60 * 1000;

export function HomePage() {
  useTitle("Needs attention");
  const now = useNow(5_000);
  const waits = useData((signal) => get("api/v1/bookmarks", { limit: LIMIT, links: true }, signal), "waits", EACH_MS);
  const failures = useData((signal) => {
    const since = new Date(Date.now() - BACK_MS).toISOString();
    return get("api/v1/runs", { status: "faulted", since, limit: 200 }, signal);
  }, "failures", EACH_MS);
  const letters = useData((signal) => get("api/v1/dead-letters", { newest: true, limit: 100 }, signal), "letters", EACH_MS);
  const parked = useData((signal) => get("api/v1/runs", { status: "paused", limit: LIMIT }, signal), "paused", EACH_MS);
  const files = useData((signal) => get("api/v1/plugin-failures", { limit: LIMIT }, signal), "files", EACH_MS);
  const plugins = useData((signal) => get("api/v1/plugins", { limit: 500 }, signal), "plugins", EACH_MS);
  const stuck = useData((signal) => get("api/v1/triggers", { parked: true, limit: 100 }, signal), "parked", EACH_MS);
  const host = useData((signal) => get("api/v1/admin/host", {}, signal), "host", EACH_MS);
  const parts = [waits, failures, letters, parked, stuck, files, plugins, host];
  const broken = parts.find((part) => part.error && !part.data);
  const stale = parts.map((part) => part.staleSince).filter((at) => at !== null);
  if (broken) return html`<main><h1>Needs attention</h1><${Trouble} error=${broken.error} again=${() => parts.forEach((part) => part.again())} /></main>`;
  if (parts.some((part) => !part.data)) return html`<main><h1>Needs attention</h1><${Loading} lines=${6} /></main>`;
  return html`<main class="home"><h1>Needs attention</h1>
    <${Stale} since=${stale.length > 0 ? Math.min(.../** @type {number[]} */ (stale)) : null} />
    <${Waits} page=${waits.data} now=${now} />
    <${Failures} page=${failures.data} now=${now} />
    <${Letters} page=${letters.data} now=${now} again=${letters.again} />
    <${Paused} page=${parked.data} now=${now} />
    <${Parked} page=${stuck.data} count=${host.data.waiting.parked} />
    <${Plugins} page=${plugins.data} files=${files.data} />
  </main>`;
}

/**
 * The triggers that cannot run, by the reason. Those of paused runs have none.
 * @param {{ page: any, count: number }} props
 */
function Parked({ page, count }) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const trigger of page.items) {
    if (trigger.reason) groups.set(trigger.reason, [...(groups.get(trigger.reason) ?? []), trigger]);
  }
  return html`<${Part} title="Parked triggers" tone="bad" fine="No trigger is parked for want of a plugin."
    isFine=${groups.size === 0} count=${capped(count)}>
    <ul class="cards">${[...groups].slice(0, LIMIT).map(([reason, triggers]) => html`<li key=${reason}>
      <span class="what">${triggers[0].workflow && html`<strong>${triggers[0].workflow}</strong> `}${triggers[0].node && html`<code>${triggers[0].node}</code>`}
        <span class="message">${reason.slice(0, 300)}</span></span>
      <span class="dim">${triggers.length > 1 ? `${triggers.length} triggers` : ""}</span>
      <span class="does"><${Link} to=${["runs", triggers[0].run]}>Run ${triggers[0].run.slice(0, 8)}<//><${Link} to=${["plugins"]}>Plugins<//></span>
    </li>`)}</ul><//>`;
}

/** @param {{ page: any, files: any }} props */
function Plugins({ page, files }) {
  const held = page.items.filter((/** @type {any} */ it) => it.quarantined > 0);
  if (held.length === 0 && files.items.length === 0) {
    return html`<${Part} title="" count="" tone="" isFine=${true} fine="All plugins are loaded, and none is in quarantine." />`;
  }
  return html`<${Files} page=${files} />
    ${held.length > 0 && html`<${Part} title="Plugins in quarantine" tone="bad" fine="" isFine=${false} count=${String(held.length)}>
      <ul class="cards">${held.map((/** @type {any} */ it) => html`<li key=${it.package + it.version}>
        <span class="what"><strong>${it.package}</strong> ${it.version} <span class="message">Its calls keep crashing, so they are delayed.</span></span>
        <span class="does"><${Link} to=${["plugins", it.package]} query=${{ version: it.version }}>In which workflows<//></span></li>`)}</ul><//>`}`;
}

/**
 * A part of the page; one line if it is fine.
 * @param {{ title: string, fine: string, count: string, tone: string, children?: any, isFine: boolean }} props
 */
function Part({ title, fine, count, tone, isFine, children }) {
  if (isFine) return html`<p class="fine"><span class="tone-good" aria-hidden="true">✓</span> ${fine}</p>`;
  return html`<section class="part"><h2>${title} <span class=${`count tone-${tone}`}>${count}</span></h2>${children}</section>`;
}

/** A number of items, of which there may be more. @param {any} page */
const number = (page) => `${page.items.length}${page.next ? "+" : ""}`;

/** @param {{ page: any, now: number }} props */
function Waits({ page, now }) {
  return html`<${Part} title="Runs that wait for an answer or an event" tone="wait" fine="No run waits for an answer or an event."
    isFine=${page.items.length === 0} count=${number(page)}>
    <ul class="cards">${page.items.map((/** @type {any} */ mark) => html`<li key=${mark.no}>
      <span class="what">${mark.metadata?.message ?? html`the event <code>${mark.name}</code>`}</span>
      <span class="dim">since <${Time} at=${mark.created} now=${now} relative=${true} />${mark.expires ? `, until ${brief(mark.expires, now)}` : ""}</span>
      <span class="does"><${Link} to=${["runs", mark.run]}>Run ${mark.run.slice(0, 8)}<//>
        ${mark.link && mark.metadata?.message && html`<a class="button" href=${mark.link} target="_blank" rel="noreferrer">Answer</a>`}</span>
    </li>`)}</ul><//>`;
}

/** @param {{ page: any, now: number }} props */
function Failures({ page, now }) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const run of page.items) {
    const key = `${run.workflow} ${run.failure?.code}`;
    groups.set(key, [...(groups.get(key) ?? []), run]);
  }
  return html`<${Part} title="Failures of the last 24 hours" tone="bad" fine="No run has failed in the last 24 hours."
    isFine=${page.items.length === 0} count=${number(page)}>
    <ul class="cards">${[...groups].slice(0, LIMIT).map(([key, runs]) => html`<li key=${key}>
      <span class="what"><strong>${runs[0].workflow || "unnamed"}</strong> ${runs[0].failure && html`<${Code} code=${runs[0].failure.code} />`}
        <span class="message">${runs[0].failure?.message.slice(0, 300)}</span></span>
      <span class="dim">${runs.length > 1 ? `${runs.length} runs, the last ` : ""}<${Time} at=${runs[0].finished ?? runs[0].created} now=${now} relative=${true} /></span>
      <span class="does"><${Link} to=${["runs", runs[0].id]}>Newest run<//>
        ${runs.length > 1 && html`<${Link} to=${["runs"]} query=${{ status: "faulted", workflow: runs[0].workflow, failure: runs[0].failure?.code }}>All<//>`}</span>
    </li>`)}</ul><//>`;
}

/** @param {{ page: any, now: number, again: () => void }} props */
function Letters({ page, now, again }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(/** @type {number | null} */ (null));
  // A letter that was replayed stays in the list of the host until it is purged.
  const left = page.items.filter((/** @type {any} */ letter) => letter.replayed === null);
  const replay = async (/** @type {number} */ no) => {
    setBusy(no);
    setError(null);
    try {
      await send("POST", `api/v1/dead-letters/${no}/replay`);
    } catch (problem) {
      setError(problem);
    }
    setBusy(null);
    again();
  };
  return html`<${Part} title="Dead letters" tone="warn" fine="There are no dead letters." isFine=${left.length === 0 && !page.next}
    count=${`${left.length}${page.next ? "+" : ""}`}>
    ${error && html`<${Trouble} error=${error} />`}
    <ul class="cards">${left.slice(0, LIMIT).map((/** @type {any} */ letter) => html`<li key=${letter.no}>
      <span class="what">${about(letter)} ${letter.failure?.code && html`<${Code} code=${letter.failure.code} />`}
        <span class="message">${why(letter)}</span></span>
      <span class="dim"><${Time} at=${letter.died} now=${now} relative=${true} /></span>
      <span class="does">${letter.run && html`<${Link} to=${["runs", letter.run]}>Run ${letter.run.slice(0, 8)}<//>`}
        <${Link} to=${["dead-letters"]} query=${{ no: String(letter.no) }}>Look inside<//>
        <button type="button" disabled=${busy !== null} onClick=${() => replay(letter.no)}>Replay</button></span>
    </li>`)}</ul>
    ${left.length > LIMIT && html`<p class="note"><${Link} to=${["dead-letters"]}>All dead letters<//></p>`}<//>`;
}

/** @param {{ page: any, now: number }} props */
function Paused({ page, now }) {
  return html`<${Part} title="Paused runs" tone="idle" fine="No run is paused." isFine=${page.items.length === 0} count=${number(page)}>
    <ul class="cards">${page.items.map((/** @type {any} */ run) => html`<li key=${run.id}>
      <span class="what"><strong>${run.workflow || "unnamed"}</strong></span>
      <span class="dim">created <${Time} at=${run.created} now=${now} relative=${true} /></span>
      <span class="does"><${Link} to=${["runs", run.id]}>Run ${run.id.slice(0, 8)}<//></span>
    </li>`)}</ul><//>`;
}
