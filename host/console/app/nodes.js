// The nodes of a workflow, one a row, with its rails. Only the rows that can be seen are in the
// document, so a workflow of ten thousand nodes is as fast as one of ten.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { BODY, kind } from "./rails.js";
import { Mark } from "./status.js";

/** The height of a row, in pixels; the style sheet has the same. */
export const ROW = 32;

/** The height of the head above the rows, in pixels. */
const HEAD = 25;

/** The distance of two rails, in pixels. */
const RAIL = 14;

/** The widest rails, in pixels. */
const WIDEST = 180;

/** Rows outside of the visible part that are drawn, too. */
const MORE = 12;

/**
 * @param {{
 *   rows: import("./rails.js").Row[], selected: string | null,
 *   select: (node: string | null) => void, enter: () => void, head?: any,
 *   status: (name: string) => string, cells?: (row: import("./rails.js").Row, width: number) => any,
 * }} props `cells` are what a row has beside the name of its node; `width` is that of the whole list
 */
export function Nodes({ rows, selected, select, enter, head, status, cells }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [view, setView] = useState({ top: 0, height: 600, width: 400 });
  const measure = () => {
    const at = box.current;
    if (at) setView({ top: at.scrollTop, height: at.clientHeight, width: at.clientWidth });
  };
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const at = rows.findIndex((row) => row.name === selected);
  const columns = useMemo(() => rows.reduce((most, row) => {
    const lines = [...row.above, ...row.below];
    return lines.reduce((sum, line) => Math.max(sum, line[0], line[1]), Math.max(most, row.column));
  }, 0), [rows]);
  const rails = Math.min((columns + 1) * RAIL + 8, WIDEST);

  useEffect(() => {
    const element = box.current;
    if (!element || at < 0) return;
    const top = at * ROW;
    const seen = element.clientHeight - HEAD;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW > element.scrollTop + seen) element.scrollTop = top + 2 * ROW - seen;
  }, [at]);

  /** @param {KeyboardEvent} event */
  const press = (event) => {
    const page = Math.max(1, Math.floor(view.height / ROW) - 1);
    const last = rows.length - 1;
    /** @type {Record<string, number>} */
    const moves = {
      ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last,
    };
    if (event.key in moves && last >= 0) {
      event.preventDefault();
      select(rows[Math.min(last, Math.max(0, moves[event.key]))].name);
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      enter();
    } else if (event.key === "Escape") select(null);
  };
  const first = Math.max(0, Math.floor(view.top / ROW) - MORE);
  const shown = rows.slice(first, Math.ceil((view.top + view.height) / ROW) + MORE);
  return html`<div class="rows" ref=${box} onScroll=${measure}>
    <div class="axis" aria-hidden="true">
      <span class="axis-name">${rows.length.toLocaleString()} ${rows.length === 1 ? "node" : "nodes"}</span>
      ${head}
    </div>
    <div class="list" role="listbox" tabindex="0" aria-label="Nodes" onKeyDown=${press}
      aria-activedescendant=${at >= 0 ? `node-${at}` : undefined}
      style=${{ height: `${rows.length * ROW}px` }}>
      ${shown.map((row, index) => html`<div key=${row.name} id=${`node-${first + index}`} role="option"
        class=${row.name === selected ? "row selected" : "row"} aria-selected=${row.name === selected}
        style=${{ top: `${(first + index) * ROW}px` }} onClick=${() => select(row.name)}>
        <${Rails} row=${row} width=${rails} status=${status(row.name)} />
        ${cells?.(row, view.width)}
      </div>`)}
    </div>
  </div>`;
}

/**
 * The rails and the name of a node.
 * @param {{ row: import("./rails.js").Row, width: number, status: string }} props
 */
function Rails({ row, width, status }) {
  const title = row.node?.title ?? "";
  const back = [...row.backward].map((edge) => edge.to).join(", ");
  return html`<svg class="rails" width=${width} height=${ROW} aria-hidden="true">
      ${row.above.map(([a, b, line], index) => html`<path key=${`a${index}`} class=${line === BODY ? "body" : ""} d=${bend(a, b, 0)} />`)}
      ${row.below.map(([a, b, line], index) => html`<path key=${`b${index}`} class=${line === BODY ? "body" : ""} d=${bend(a, b, ROW / 2)} />`)}
      <g transform=${`translate(${x(row.column) - 8} ${ROW / 2 - 8})`}>
        <rect class="under" width="16" height="16" rx="8" /><${Mark} status=${status} />
      </g>
    </svg>
    <span class="label" title=${title || row.name}>
      <span class="name">${row.name}</span>${" "}
      <span class="dim">${title || kind(row.node)}${back && ` ↺ ${back}`}</span>
    </span>${" "}`;
}

/** The middle of a column. @param {number} column */
const x = (column) => column * RAIL + 11;

/**
 * A line from one column to another, half a row long.
 * @param {number} from
 * @param {number} to
 * @param {number} top
 */
function bend(from, to, top) {
  const [a, b, half] = [x(from), x(to), ROW / 2];
  if (a === b) return `M${a} ${top}V${top + half}`;
  return `M${a} ${top}C${a} ${top + half * 0.7} ${b} ${top + half * 0.3} ${b} ${top + half}`;
}
