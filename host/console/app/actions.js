// The commands that people give to a run.

import { useEffect, useState } from "preact/hooks";
import { get, send } from "./api.js";
import { html } from "./html.js";
import { write } from "./json.js";
import { Dialog, Trouble } from "./kit.js";
import { rows } from "./rails.js";
import { adjust } from "./route.js";

/** How long a command waits for its effect. */
const WAIT = "5s";

/**
 * The buttons for a run in its status.
 * @param {{ run: import("./live.js").LiveRun }} props
 */
export function Actions({ run }) {
  const [asked, ask] = useState("");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState("");
  const { status } = run;
  const command = async (/** @type {string} */ name) => {
    setBusy(name);
    setError(null);
    try {
      await send("POST", `api/v1/runs/${run.id}/${name}`, { query: { wait: WAIT } });
    } catch (problem) {
      setError(problem);
    }
    setBusy("");
    await run.again();
  };
  const button = (/** @type {string} */ name, /** @type {string} */ word, /** @type {() => void} */ act) =>
    html`<button type="button" disabled=${busy !== ""} onClick=${act}>${busy === name ? `${word}…` : word}</button>`;
  return html`<div class="actions">
    ${!run.isFinal && status !== "paused" && button("pause", "Pause", () => command("pause"))}
    ${status === "paused" && button("unpause", "Unpause", () => command("unpause"))}
    ${!run.isFinal && button("cancel", "Cancel", () => ask("cancel"))}
    ${(status === "faulted" || status === "cancelled") && button("retry", "Retry", () => ask("retry"))}
    ${error && html`<${Dialog} title="The command failed" onClose=${() => setError(null)}><${Trouble} error=${error} /><//>`}
    ${asked === "cancel" && html`<${Dialog} title="Cancel this run?" onClose=${() => ask("")}>
      <p>Executions in progress are interrupted, and waits are dropped. A cancelled run can be retried later.</p>
      <div class="buttons"><button type="button" class="danger" onClick=${() => { ask(""); command("cancel"); }}>Cancel the run</button>
      <button type="button" onClick=${() => ask("")}>Keep it</button></div><//>`}
    ${asked === "retry" && html`<${Retry} run=${run} onClose=${() => ask("")} />`}
  </div>`;
}

/**
 * The form for a retry: from which node, with which input, by which version.
 * @param {{ run: import("./live.js").LiveRun, onClose: () => void }} props
 */
function Retry({ run, onClose }) {
  const failed = new Set();
  for (const [node, list] of run.history.nodes) if (list.at(-1)?.status === "failed") failed.add(node);
  // A node of a body runs for an item, so a retry begins at the nodes of the outermost level.
  const names = run.file ? rows(run.file).filter((row) => row.depth === 0).map((row) => row.name) : [];
  names.sort((a, b) => Number(failed.has(b)) - Number(failed.has(a)));
  const outer = names.filter((name) => failed.has(name));
  // One node has failed: the form begins with it, so that its input can be changed at once.
  const [from, setFrom] = useState(outer.length === 1 && failed.size === 1 ? outer[0] : "");
  const [input, setInput] = useState("");
  // The input that the node got last, as the form offers it.
  const [given, setGiven] = useState("");
  const node = run.file ? rows(run.file).find((row) => row.name === from)?.node : null;
  const takes = node && ("use" in node || "workflow" in node);
  useEffect(() => {
    setGiven("");
    setInput("");
    const last = run.history.nodes.get(from)?.at(-1);
    if (!last || !takes) return;
    const abort = new AbortController();
    get(`api/v1/runs/${run.id}/executions/${last.no}`, {}, abort.signal).then((whole) => {
      if (whole.input?.value === undefined) return;
      const text = write(whole.input.value);
      setGiven(text);
      setInput((before) => (before === "" ? text : before));
    }, () => {});
    return () => abort.abort();
  }, [from, takes]);
  const [latest, setLatest] = useState(false);
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const parts = [];
    if (from !== "") parts.push(`"from":${JSON.stringify(from)}`);
    // An input that was not changed is not sent: the node gets the same again.
    if (takes && input.trim() !== "" && input !== given) {
      try {
        JSON.parse(input);
      } catch (problem) {
        setError({ message: `The input is not JSON: ${/** @type {Error} */ (problem).message}` });
        return;
      }
      // The text itself is sent, so that each number keeps its digits.
      parts.push(`"input":${input}`);
    }
    if (latest) parts.push('"definition":"latest"');
    setBusy(true);
    setError(null);
    try {
      await send("POST", `api/v1/runs/${run.id}/retry`, { body: `{${parts.join(",")}}` });
      onClose();
      // The newest execution is shown, not the one that failed.
      adjust({ execution: null }, { replace: true });
      await run.again();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Retry this run" onClose=${onClose}><form onSubmit=${submit}>
    <label>From
      <select value=${from} onChange=${(/** @type {any} */ event) => setFrom(event.target.value)}>
        <option value="">all nodes that failed${failed.size ? `: ${[...failed].slice(0, 5).join(", ")}` : ""}</option>
        ${names.slice(0, 2000).map((name) => html`<option key=${name} value=${name}>${name}${failed.has(name) ? " (failed)" : ""}</option>`)}
      </select></label>
    ${takes && html`<label>Input for ${from}, as JSON
      <textarea rows="6" spellcheck="false" value=${input} placeholder="empty: the input that it had"
        onInput=${(/** @type {any} */ event) => setInput(event.target.value)}></textarea></label>
      <button type="button" class="quiet" onClick=${() => setInput(write(run.shown.input))}>Begin with the input of the run</button>`}
    <label class="check"><input type="checkbox" checked=${latest} onChange=${(/** @type {any} */ event) => setLatest(event.target.checked)} />
      With the version of the workflow that is published now</label>
    ${error && html`<${Trouble} error=${error} />`}
    <div class="buttons"><button type="submit" class="primary" disabled=${busy}>${busy ? "Retrying…" : "Retry"}</button>
      <button type="button" onClick=${onClose}>Leave it</button></div>
  </form><//>`;
}
