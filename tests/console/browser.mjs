// A browser for journeys through the console, and what each of its pages has to keep: no script
// fails, no policy is violated, and no request leaves the host.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** How long a page may take, in milliseconds: a machine that does other work is slow, not wrong. */
const PATIENCE_MS = 30_000;

/** A host as a program reaches it. */
export class Host {
  constructor(address, token) {
    this.address = address;
    this.token = token;
  }

  async ask(method, path, body, type = "application/json") {
    const headers = { "Content-Type": type };
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    const text = typeof body === "string" ? body : body && JSON.stringify(body);
    const answer = await fetch(`${this.address}${path}`, { method, headers, body: text });
    const got = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${got}`);
    return got === "" ? null : JSON.parse(got);
  }

  async publish(workflow) {
    await this.ask("PUT", `/api/v1/definitions/${workflow.workflow}`, workflow);
  }

  /** Starts a run, and returns its id. The input is JSON as text, or a value. */
  async start(workflow, input, more = {}) {
    const text = typeof input === "string" ? input : JSON.stringify(input);
    const rest = Object.entries(more).map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`);
    const body = `{"workflow":${JSON.stringify(workflow)},"input":${text}${rest.join("")}}`;
    return (await this.ask("POST", "/api/v1/runs", body)).id;
  }

  result(id) {
    return this.ask("GET", `/api/v1/runs/${id}/result?wait=30s`);
  }
}

/** A page that notes what it must not do. */
export class Visit {
  /** All visits, for the report of a failure. */
  static all = [];

  static async begin(root, options = {}) {
    const browser = await chromium.launch({
      executablePath: process.env.WINDLASS_CHROMIUM,
      // Root cannot use the sandbox.
      args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    });
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const visit = new Visit();
    Visit.all.push(visit);
    visit.root = root;
    visit.options = options;
    visit.browser = browser;
    visit.context = context;
    visit.wrong = [];
    visit.mayLose = false;
    context.on("page", (page) => visit.#note(page));
    visit.page = await context.newPage();
    return visit;
  }

  #note(page) {
    const origin = new URL(this.root).origin;
    page.on("pageerror", (error) => this.wrong.push(`a script failed: ${error.stack}`));
    page.on("dialog", (dialog) => {
      this.wrong.push(`a script of the data ran: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("console", (message) => {
      const lost = this.mayLose && /Failed to load resource|net::ERR/.test(message.text());
      if (message.type() === "error" && !lost) this.wrong.push(`console: ${message.text()}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      const inside = ["data:", "blob:", "about:"].includes(url.protocol);
      if (!inside && url.origin !== origin) this.wrong.push(`a foreign request: ${url}`);
    });
  }

  /** Opens a page of the console, like `runs`. */
  async open(path) {
    await this.page.goto(new URL(path, this.root).href);
    await this.page.locator("main").waitFor();
  }

  /** Waits until a text can be seen. */
  async sees(text, options = {}) {
    await this.page.getByText(text, { exact: false, ...options }).first().waitFor();
  }

  /** Keeps a picture of the page as it is in the directory that `WINDLASS_SHOTS` names, if it does. */
  async shoot(name) {
    const directory = process.env.WINDLASS_SHOTS;
    if (!directory) return;
    this.shots = (this.shots ?? 0) + 1;
    const { colorScheme = "light", viewport } = this.options;
    const about = [process.argv[2], Visit.all.indexOf(this), this.shots, name, colorScheme, viewport ? "narrow" : "wide"];
    const file = `${about.join("-").replaceAll(/[^A-Za-z0-9.-]+/g, "_")}.png`;
    await this.page.screenshot({ path: join(directory, file), fullPage: true });
  }

  /** Checks the page as it is by the rules of axe. */
  async accessible(name) {
    await this.shoot(name);
    await this.page.evaluate(axe);
    const found = await this.page.evaluate(async () => {
      const { violations } = await globalThis.axe.run(document, { resultTypes: ["violations"] });
      return violations.map((it) => `${it.id} (${it.help}): ${it.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)).join(" | ")}`);
    });
    for (const violation of found) this.wrong.push(`${name}: ${violation}`);
  }

  /** Presses Tab until the element with this role and name has the focus. */
  async tabTo(role, name) {
    const target = this.page.getByRole(role, { name }).first();
    await target.waitFor();
    for (let count = 0; count < 150; count++) {
      if (await target.evaluate((element) => element === document.activeElement)) return;
      await this.page.keyboard.press("Tab");
    }
    throw new Error(`the keyboard does not reach the ${role} ${name}`);
  }

  async end() {
    await this.browser.close();
    if (this.wrong.length > 0) throw new Error("the pages have not kept what they have to");
  }
}

export function check(holds, what) {
  if (!holds) throw new Error(what);
}
