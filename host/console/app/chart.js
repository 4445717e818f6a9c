// The nodes of a run: beside the rails of each node are its state and its times.

import { useMemo } from "preact/hooks";
import { bars } from "./history.js";
import { html } from "./html.js";
import { Nodes, ROW } from "./nodes.js";
import { scale } from "./scale.js";
import { known } from "./status.js";
import { ago, ms, took } from "./time.js";

/** Bars of a row that are drawn; those that would lie on the same pixel are merged before. */
const BARS = 600;

/** Executions that the scale looks at. */
const LOOKED_AT = 4_000;

/**
 * @param {{
 *   run: import("./live.js").LiveRun, changes: number, rows: import("./rails.js").Row[],
 *   states: Map<string, { status: string, due: string | null }>, now: number,
 *   selected: string | null, select: (node: string | null, no?: string | null) => void, enter: () => void,
 * }} props
 */
export function Chart({ run, changes, rows, states, now, selected, select, enter }) {
  const isOpen = !run.isFinal;
  const end = run.shown.run.finished ? ms(run.shown.run.finished) : now;
  const from = Math.min(ms(run.shown.run.created), run.history.from);
  const times = useMemo(() => {
    /** @type {[number, number][]} */
    const busy = [];
    for (const execution of run.history.all.values()) {
      if (busy.length >= LOOKED_AT) break;
      busy.push([execution.from, execution.to]);
    }
    for (const begun of run.begun.values()) busy.push([begun, end]);
    return scale(from, Math.max(end, run.history.to), busy);
  }, [run, changes, from, end]);
  const head = html`<svg class="times">
    ${times.ticks.map((tick) => html`<g key=${tick.at}>
      <line x1=${part(tick.at)} x2=${part(tick.at)} y1="18" y2="24" />
      <text x=${part(tick.at)} y="14" text-anchor=${tick.at < 0.03 ? "start" : "middle"}>${tick.label}</text></g>`)}
    ${times.gaps.map((gap) => html`<text key=${gap.from} class="gap" y="14"
      x=${part(gap.to > 0.99 ? 1 : (gap.from + gap.to) / 2)} text-anchor=${gap.to > 0.99 ? "end" : "middle"}>≈ ${gap.label}</text>`)}
  </svg>`;
  const cells = (/** @type {import("./rails.js").Row} */ { name }, /** @type {number} */ width) => {
    const list = run.history.nodes.get(name) ?? EMPTY;
    return html`<${State} state=${states.get(name) ?? NONE} count=${list.length} now=${now} />
      <${Bars} list=${list} times=${times} end=${end} isOpen=${isOpen} running=${run.begun.get(name)} width=${width} />`;
  };
  return html`<${Nodes} rows=${rows} selected=${selected} select=${select} enter=${enter} head=${head} cells=${cells}
    status=${(/** @type {string} */ name) => (states.get(name) ?? NONE).status} />`;
}

const NONE = { status: "unreached", due: null };
/** @type {import("./history.js").Execution[]} */
const EMPTY = [];

/** @param {number} at from 0 to 1 */
const part = (at) => `${(at * 100).toFixed(3)}%`;

/**
 * The state of a node in words.
 * @param {{ state: { status: string, due: string | null }, count: number, now: number }} props
 */
function State({ state, count, now }) {
  const { word, tone } = known(state.status);
  const more = [
    state.due && ms(state.due) > now ? ago(state.due, now, true) : "",
    count > 1 ? `${count} ×` : "",
  ].filter(Boolean).join(", ");
  return html`<span class=${`state tone-${tone}`}>${word}${more && html`<span class="dim"> ${more}</span>`}</span>`;
}

/**
 * The times of a node.
 * @param {{
 *   list: import("./history.js").Execution[], times: import("./scale.js").Scale, end: number, isOpen: boolean,
 *   running: number | undefined, width: number,
 * }} props
 */
function Bars({ list, times, end, isOpen, running, width }) {
  const pixel = 1 / Math.max(200, width * 0.44);
  /** @type {{ a: number, b: number, tone: string, waits: boolean, title: string }[]} */
  const merged = [];
  for (const bar of bars(list, { now: end, isOpen, running })) {
    const a = times.place(bar.from);
    const b = times.place(bar.to);
    const last = merged.at(-1);
    if (last && !last.waits && !bar.waits && last.tone === bar.tone && a - last.b < pixel && b - last.a < 4 * pixel) {
      last.b = Math.max(b, last.b);
      last.title = "several executions";
    } else if (merged.length < BARS) {
      merged.push({ a, b, tone: bar.tone, waits: bar.waits, title: `${bar.title}, ${took(bar.to - bar.from)}` });
    }
  }
  // Executions of other items may hide a wait, but no wait an execution.
  merged.sort((a, b) => Number(b.waits) - Number(a.waits));
  return html`<svg class="times" height=${ROW} aria-hidden="true">
    ${times.gaps.map((gap) => html`<rect key=${gap.from} class="gap" x=${part(gap.from)} y="0" width=${part(gap.to - gap.from)} height=${ROW} />`)}
    ${merged.map((bar, index) => bar.waits
      ? html`<line key=${index} class=${`wait tone-${bar.tone}`} x1=${part(bar.a)} x2=${part(bar.b)} y1=${ROW / 2} y2=${ROW / 2}><title>${bar.title}</title></line>`
      : html`<svg key=${index} x=${part(bar.a)} y="8" overflow="visible"><rect class=${`bar tone-${bar.tone}`} width=${part(Math.max(0, bar.b - bar.a))}
          height="16" rx="3"><title>${bar.title}</title></rect><rect class=${`bar tone-${bar.tone}`} width="3" height="16" rx="1.5" /></svg>`)}
  </svg>`;
}
