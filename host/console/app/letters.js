// Dead letters: what could not be delivered, why, and the two ways out: replay it, or delete it.

import { useState } from "preact/hooks";
import { get, send } from "./api.js";
import { html } from "./html.js";
import { Code, Dialog, Listing, Loading, Pages, Time, Trouble, useCommand, useData, useNow, useTitle } from "./kit.js";
import { Link, adjust } from "./route.js";
import { Value } from "./value.js";

/** How often the list is read, in milliseconds. */
const EACH_MS = 10_000;

/** Dead letters of a page. */
const LIMIT = 50;

/** The kinds of the API, as people say them. */
const KINDS = [
  { kind: "trigger", word: "Triggers" },
  { kind: "resume", word: "Answers to waits" },
  { kind: "stimulus", word: "Events" },
];

/** What the reasons of the API mean. */
const REASONS = /** @type {Record<string, string>} */ ({
  stale: "the wait had ended before",
  expired: "no run waited for it in time",
  failed: "its delivery failed",
  limit: "a limit of the run was reached",
  rejected: "a consumer has rejected it",
  lost: "several hosts died while they worked on it",
});

/**
 * Why a letter was not delivered, in words.
 * @param {any} letter
 */
export const why = (letter) => letter.failure?.message?.slice(0, 300) ?? REASONS[letter.reason] ?? letter.reason;

/**
 * What a letter is, in words.
 * @param {any} letter
 */
export function about(letter) {
  const { body } = letter;
  if (letter.kind === "stimulus") return html`the event <code>${body.name}</code>`;
  const word = letter.kind === "resume" ? "the answer for" : `the ${body.type} trigger of`;
  return html`${word} ${body.node ? html`the node <code>${body.node}</code>` : "the run"}`;
}

/**
 * @param {{ query: URLSearchParams }} props
 */
export function LettersPage({ query }) {
  useTitle("Dead letters");
  const now = useNow(30_000);
  const [kind, run, cursor, no] = ["kind", "run", "cursor", "no"].map((name) => query.get(name));
  const found = useData(
    (signal) => get("api/v1/dead-letters", { newest: true, limit: LIMIT, kind, run, cursor }, signal),
    JSON.stringify([kind, run, cursor]), EACH_MS);
  const [purges, setPurges] = useState(false);
  const page = found.data;
  return html`<main><div class="title"><h1>Dead letters</h1>
      ${page?.items.length > 0 && html`<div class="actions"><button type="button" onClick=${() => setPurges(true)}>Delete old ones</button></div>`}</div>
    <p class="lead">Events, answers and triggers that could not be delivered. Each can be replayed once.</p>
    <div class="filters"><div class="chips" role="group" aria-label="Kind">
      ${KINDS.map((it) => html`<button type="button" class="chip" key=${it.kind} aria-pressed=${kind === it.kind}
        onClick=${() => adjust({ kind: kind === it.kind ? null : it.kind, cursor: null, no: null })}>${it.word}</button>`)}</div>
      ${run && html`<span class="tag">of the run ${run.slice(0, 8)}</span>
        <button type="button" class="quiet" onClick=${() => adjust({ run: null, cursor: null, no: null })}>Of all runs</button>`}</div>
    <${Listing} found=${found} empty=${kind || run ? "No dead letter fits these filters." : "There are no dead letters: everything was delivered."}>
      <div class="wide"><table>
        <thead><tr><th scope="col">No</th><th scope="col">What</th><th scope="col">Why</th><th scope="col">Run</th>
          <th scope="col">Since</th><th scope="col">Actions</th></tr></thead>
        <tbody>${page?.items.map((/** @type {any} */ it) => html`<${Row} key=${it.no} letter=${it} now=${now} again=${found.again} />`)}</tbody>
      </table></div>
    <//>
    <${Pages} cursor=${cursor} next=${page?.next} first="Newest" more="Older" />
    ${no && html`<${Letter} key=${no} no=${no} now=${now} again=${found.again} />`}
    ${purges && html`<${Purge} again=${found.again} onClose=${() => setPurges(false)} />`}
  </main>`;
}

/**
 * The commands for a letter.
 * @param {{ letter: any, again: () => void, whole?: boolean }} props
 */
function Actions({ letter, again, whole = false }) {
  const { busy, error, run } = useCommand(again);
  const path = `api/v1/dead-letters/${letter.no}`;
  return html`<span class="does">
    ${letter.replayed === null && html`<button type="button" disabled=${busy} onClick=${() => run(() => send("POST", `${path}/replay`))}>Replay<span class="unseen"> letter ${letter.no}</span></button>`}
    ${whole
      ? html`<button type="button" disabled=${busy} onClick=${() => run(() => send("DELETE", path), () => adjust({ no: null }))}>Delete</button>`
      : html`<button type="button" class="quiet" onClick=${() => adjust({ no: String(letter.no) })}>Look inside<span class="unseen"> letter ${letter.no}</span></button>`}
    ${error && html`<${Trouble} error=${error} />`}</span>`;
}

/** @param {{ letter: any, now: number, again: () => void }} props */
function Row({ letter, now, again }) {
  return html`<tr>
    <td>${letter.no}</td><td>${about(letter)}</td>
    <td class="about">${letter.failure && html`<${Code} code=${letter.failure.code} /> `}<span>${why(letter)}</span></td>
    <td>${letter.run ? html`<${Link} to=${["runs", letter.run]}><code>${letter.run.slice(0, 8)}</code><//>` : html`<span class="dim">none</span>`}</td>
    <td><${Time} at=${letter.died} now=${now} relative=${true} />${letter.replayed && html`<br /><span class="dim">replayed</span>`}</td>
    <td><${Actions} letter=${letter} again=${again} /></td>
  </tr>`;
}

/**
 * A letter as a whole. It may be on another page of the list, so it is read by itself.
 * @param {{ no: string, now: number, again: () => void }} props
 */
function Letter({ no, now, again }) {
  const found = useData((signal) => get(`api/v1/dead-letters/${encodeURIComponent(no)}`, {}, signal), no);
  return html`<${Dialog} title=${`Dead letter ${no}`} onClose=${() => adjust({ no: null })}>
    ${found.data ? html`<${Content} letter=${found.data} now=${now} again=${() => { found.again(); again(); }} />`
      : found.error ? html`<${Trouble} error=${found.error} again=${found.again} />` : html`<${Loading} />`}
  <//>`;
}

/** @param {{ letter: any, now: number, again: () => void }} props */
function Content({ letter, now, again }) {
  const { body } = letter;
  const value = letter.kind === "stimulus" ? body.input : body.payload;
  return html`<div class="inside">
    <p>${about(letter)}: ${why(letter)} ${letter.failure && html`<${Code} code=${letter.failure.code} />`}</p>
    <dl class="facts">
      <div><dt>Reason</dt><dd>${letter.reason}</dd></div>
      <div><dt>Died</dt><dd><${Time} at=${letter.died} now=${now} /></dd></div>
      ${letter.replayed && html`<div><dt>Replayed</dt><dd><${Time} at=${letter.replayed} now=${now} /></dd></div>`}
      ${body.correlation && html`<div><dt>Correlation</dt><dd>${body.correlation}</dd></div>`}
      ${letter.run && html`<div><dt>Run</dt><dd><${Link} to=${["runs", letter.run]}><code>${letter.run.slice(0, 13)}</code><//></dd></div>`}
    </dl>
    ${body.match !== undefined && html`<${Value} label="Match" value=${body.match} file="match" />`}
    ${value !== undefined ? html`<${Value} label=${letter.kind === "stimulus" ? "Input" : "Payload"} value=${value} file=${`letter-${letter.no}`} />`
      : html`<p class="note">It has no data.</p>`}
    ${letter.failure?.details != null && html`<${Value} label="Details of the failure" value=${letter.failure.details} file="failure" />`}
    <${Actions} letter=${letter} again=${again} whole=${true} />
  </div>`;
}

/** The ages that a person chooses from. */
const AGES = [["1h", "an hour"], ["1d", "a day"], ["7d", "a week"]];

/** @param {{ again: () => void, onClose: () => void }} props */
function Purge({ again, onClose }) {
  const [age, setAge] = useState("7d");
  const [done, setDone] = useState(/** @type {any} */ (null));
  const { busy, error, run } = useCommand(again);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    run(async () => setDone(await send("POST", "api/v1/dead-letters/purge", { body: JSON.stringify({ older_than: age }) })));
  };
  return html`<${Dialog} title="Delete old dead letters" onClose=${onClose}><form onSubmit=${submit}>
    <p>Their content is lost. Letters of all kinds and runs are deleted, whatever the list shows.</p>
    <label>Older than<select value=${age} onChange=${(/** @type {any} */ event) => setAge(event.target.value)}>
      ${AGES.map(([value, word]) => html`<option key=${value} value=${value}>${word}</option>`)}</select></label>
    ${done && html`<p role="status">${done.deleted} ${done.deleted === 1 ? "letter is" : "letters are"} deleted.${done.more ? " There are more." : ""}</p>`}
    ${error && html`<${Trouble} error=${error} />`}
    <div class="buttons"><button type="submit" class="danger" disabled=${busy}>${busy ? "Deleting…" : "Delete"}</button>
      <button type="button" onClick=${onClose}>${done ? "Close" : "Leave them"}</button></div>
  </form><//>`;
}
