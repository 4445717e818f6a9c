// The frame of all pages: the bar at the top, the page of the address, and the login.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, onStranger, send } from "./api.js";
import { HomePage } from "./home.js";
import { HostPage } from "./host.js";
import { html } from "./html.js";
import { useData, useTitle } from "./kit.js";
import { LettersPage } from "./letters.js";
import { LoginPage, logout, session } from "./login.js";
import { PluginPage, PluginsPage } from "./plugins.js";
import { Link, href, useRoute } from "./route.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";
import { SchedulesPage } from "./schedules.js";
import { VersionsPage } from "./versions.js";
import { WorkflowPage, WorkflowsPage } from "./workflows.js";

/** How often the state of the host is read, in milliseconds. */
const EACH_MS = 10_000;

function App() {
  const route = useRoute();
  const [stranger, setStranger] = useState(false);
  const [open, setOpen] = useState(false);
  useEffect(() => onStranger(() => setStranger(true)), []);
  useEffect(() => {
    session().then((state) => setOpen(state.open), () => {});
  }, [stranger]);
  const leave = async () => {
    await logout().catch(() => {});
    setOpen(false);
    setStranger(true);
  };
  if (stranger) {
    return html`<${LoginPage} onDone=${() => setStranger(false)} />`;
  }
  return html`<${Bar} here=${route.parts[0] ?? ""} leave=${open ? leave : null} /><${Host} /><${Page} route=${route} />`;
}

/**
 * @param {{ here: string, leave: (() => void) | null }} props
 */
function Bar({ here, leave }) {
  return html`<header class="top">
    <a class="skip" href="#app" onClick=${skip}>Skip to the content</a>
    <${Link} to=${[]} class="logo"><img src=${href(["app", "icon.svg"])} alt="" width="24" height="24" />Windlass<//>
    <nav aria-label="Console">
      <${Link} to=${[]} current=${here === ""}>Needs attention<//>
      <${Link} to=${["runs"]} current=${here === "runs"}>Runs<//>
      <${Link} to=${["workflows"]} current=${here === "workflows"}>Workflows<//>
      <${Link} to=${["schedules"]} current=${here === "schedules"}>Schedules<//>
      <${Link} to=${["dead-letters"]} current=${here === "dead-letters"}>Dead letters<//>
      <${Link} to=${["plugins"]} current=${here === "plugins"}>Plugins<//>
      <${Link} to=${["host"]} current=${here === "host"}>Host<//>
    </nav>
    ${leave && html`<button type="button" class="quiet" onClick=${leave}>Log out</button>`}
  </header>`;
}

/** Moves the focus to the content, without a change of the address. @param {Event} event */
function skip(event) {
  event.preventDefault();
  const main = document.querySelector("main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}

/** A line if the host begins no work. */
function Host() {
  const { data, again } = useData((signal) => get("api/v1/admin/pause", {}, signal), "pause", EACH_MS);
  const [error, setError] = useState(/** @type {any} */ (null));
  if (!data?.paused) return null;
  const unpause = () => send("POST", "api/v1/admin/unpause").then(again, setError);
  return html`<p class="banner" role="status">This host is paused: it begins no new work.
    ${data.in_flight > 0 ? ` ${data.in_flight} executions in progress are finished.` : ""}
    <button type="button" onClick=${unpause}>Unpause the host</button>${error && html` <span>${error.message}</span>`}</p>`;
}

/** @param {{ route: import("./route.js").Route }} props */
function Page({ route: { parts, query } }) {
  const [first, second, ...more] = parts;
  if (first === undefined) return html`<${HomePage} />`;
  if (first === "runs" && second === undefined) return html`<${RunsPage} query=${query} />`;
  if (first === "runs" && more.length === 0) return html`<${RunPage} key=${second} id=${second} query=${query} />`;
  if (first === "workflows" && second === undefined) return html`<${WorkflowsPage} query=${query} />`;
  if (first === "workflows" && more.length === 0 && query.get("view") === "versions") {
    return html`<${VersionsPage} key=${second} name=${second} query=${query} />`;
  }
  if (first === "workflows" && more.length === 0) return html`<${WorkflowPage} key=${second} name=${second} query=${query} />`;
  if (first === "plugins" && second !== undefined && more.length === 0) return html`<${PluginPage} key=${second} name=${second} query=${query} />`;
  if (second !== undefined) return html`<${NoPage} />`;
  if (first === "schedules") return html`<${SchedulesPage} query=${query} />`;
  if (first === "dead-letters") return html`<${LettersPage} query=${query} />`;
  if (first === "plugins") return html`<${PluginsPage} query=${query} />`;
  if (first === "host") return html`<${HostPage} />`;
  return html`<${NoPage} />`;
}

function NoPage() {
  useTitle("No such page");
  return html`<main class="empty"><h1>There is no such page</h1><p><${Link} to=${["runs"]}>The runs<//> may be what you look for.</p></main>`;
}

const place = /** @type {HTMLElement} */ (document.getElementById("app"));
place.replaceChildren();
render(html`<${App} />`, place);
