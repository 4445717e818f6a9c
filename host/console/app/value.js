// A value of a run: JSON as a tree, with its exact digits.

import { useState } from "preact/hooks";
import { html } from "./html.js";
import { Digits, line, write } from "./json.js";
import { size } from "./time.js";

/** Members that a level shows before it asks. */
const MEMBERS = 50;

/** Characters of a text that are shown before it asks. */
const TEXT = 2_000;

/** Levels that are open at first. */
const OPEN = 2;

/**
 * A value with its size, to read, to copy and to save.
 * @param {{ value: unknown, label: string, file?: string }} props
 */
export function Value({ value, label, file }) {
  const [copied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(write(value));
      setCopied(true);
      setTimeout(() => setCopied(false), 1500);
    } catch {
      setCopied(false);
    }
  };
  const save = () => {
    const url = URL.createObjectURL(new Blob([write(value)], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = `${file ?? "value"}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  const isSmall = value === null || typeof value !== "object";
  return html`<section class="value" aria-label=${label}>
    <header>
      <h3>${label}</h3>
      <button type="button" class="quiet" onClick=${copy}>${copied ? "Copied" : "Copy"}</button>
      ${!isSmall && html`<button type="button" class="quiet" onClick=${save}>Save</button>`}
    </header>
    <div class="tree" tabindex="0" role="region" aria-label=${`${label}, content`}><${Part} value=${value} level=${0} /></div>
  </section>`;
}

/**
 * @param {{ value: any, level: number }} props
 */
function Part({ value, level }) {
  if (value instanceof Digits) return html`<span class="number">${value.source}</span>`;
  if (value === null) return html`<span class="word">null</span>`;
  if (typeof value === "string") return html`<${Text} text=${value} />`;
  if (typeof value === "number") return html`<span class="number">${String(value)}</span>`;
  if (typeof value !== "object") return html`<span class="word">${String(value)}</span>`;
  return html`<${Level} value=${value} level=${level} />`;
}

/** @param {{ text: string }} props */
function Text({ text }) {
  const [whole, setWhole] = useState(false);
  if (whole || text.length <= TEXT) return html`<span class="text">${JSON.stringify(text)}</span>`;
  return html`<span class="text">${JSON.stringify(text.slice(0, TEXT))}</span>${" "}
    <button type="button" class="quiet" onClick=${() => setWhole(true)}>all ${size(text.length)}</button>`;
}

/**
 * @param {{ value: any, level: number }} props
 */
function Level({ value, level }) {
  const isList = Array.isArray(value);
  const count = isList ? value.length : Object.keys(value).length;
  const [open, setOpen] = useState(level < OPEN && (level === 0 || count <= MEMBERS));
  const [most, setMost] = useState(MEMBERS);
  if (count === 0) return html`<span class="word">${isList ? "[]" : "{}"}</span>`;
  const toggle = level > 0 && html`<button type="button" class="fold" aria-expanded=${open} onClick=${() => setOpen(!open)}>
    ${open ? "▾" : "▸"}<span class="unseen">${open ? "Close" : "Open"}</span></button>`;
  if (!open && level > 0) return html`${toggle}<span class="cut">${line(value, 80)}</span>`;
  const keys = isList ? value.slice(0, most).keys() : Object.keys(value).slice(0, most);
  return html`${toggle}${isList && html`<span class="word">list of ${count}</span>`}
    <ul class=${level === 0 ? "outermost" : ""}>
      ${[...keys].map((key) => html`<li key=${key}>
        <span class=${isList ? "index" : "name"}>${String(key)}</span>
        <${Part} value=${value[key]} level=${level + 1} />
      </li>`)}
      ${count > most && html`<li><button type="button" class="quiet"
        onClick=${() => setMost(most + 10 * MEMBERS)}>${count - most} more</button></li>`}
    </ul>`;
}
