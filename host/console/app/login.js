// The login: the token of the host, once, for a cookie that no page can read.

import { useEffect, useRef, useState } from "preact/hooks";
import { root, send } from "./api.js";
import { html } from "./html.js";
import { Trouble, useTitle } from "./kit.js";

/** The path of sessions, relative to the root of the host. */
const SESSION = `${root.pathname.split("/").at(-2)}/session`;

/** Whether the host asks for a session, and whether there is one. */
export const session = () => send("GET", SESSION);

/** Ends the session. */
export const logout = () => send("DELETE", SESSION);

/**
 * @param {{ onDone: () => void }} props
 */
export function LoginPage({ onDone }) {
  useTitle("Login");
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => field.current?.focus(), []);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await send("POST", SESSION, { body: JSON.stringify({ token: field.current?.value ?? "" }) });
      onDone();
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`<main class="login"><form onSubmit=${submit}>
    <h1>Windlass</h1>
    <p>This host asks for its token. The browser keeps a cookie for 12 hours, and not the token.</p>
    <label>Token<input ref=${field} type="password" name="token" autocomplete="current-password" required /></label>
    ${error && html`<${Trouble} error=${error.status === 401 ? { message: "This is not the token of this host.", code: error.code, help: error.help } : error} />`}
    <button type="submit" class="primary" disabled=${busy}>${busy ? "Logging in…" : "Log in"}</button>
    <p class="dim">The token is in <code>[server] token</code> or <code>WINDLASS_SERVER__TOKEN</code> of the host; <code>windlass ui</code> tells where this machine has it.</p>
  </form></main>`;
}
