// Journeys through the console of a real host: `node journeys.mjs JOURNEY ADDRESS [TOKEN]`. A journey
// that fails ends with an error. `tests/tests/system/console.rs` starts hosts for them.

import http from "node:http";
import { Host, Visit, check } from "./browser.mjs";

const [journey, address, token] = process.argv.slice(2);
const host = new Host(address, token);
const root = `${address}/ui/`;

/** Its node `price` fails unless its input has a price. */
const ORDER = {
  workflow: "order",
  tags: { shop: "berlin" },
  nodes: {
    look: { set: { seen: true } },
    price: { use: "data/jq", with: { filter: 'if .price then . else error("the order has no price") end' }, input: "{{ input }}" },
    done: { set: { total: "{{ nodes.price.output.price }}" } },
  },
  edges: ["look -> price", "price -> done"],
  output: "{{ vars.total }}",
};

const SCRIPT = '<script>alert(1)</script><img src=x onerror=alert(2)>"\'';

const journeys = {
  /** A person finds why a run has failed, and retries it with another input. */
  async mend() {
    await host.publish(ORDER);
    // JavaScript would round this number.
    const id = await host.start("order", '{"order": 9007199254740993, "rate": 1.10}');
    await host.result(id);
    const visit = await Visit.begin(root);
    const { page } = visit;
    await visit.open("");
    await visit.sees("the order has no price");
    await page.getByRole("link", { name: "Newest run" }).click();
    await visit.sees("9007199254740993");
    await visit.sees("1.10");
    await page.getByRole("button", { name: "Show the node price" }).click();
    await page.getByRole("heading", { name: "price" }).waitFor();
    check(page.url().includes("node=price"), "the address has the node");
    const code = page.locator("main > .failure a.code");
    const answer = await page.request.get(await code.getAttribute("href"));
    check(answer.ok(), `the page of the code: ${answer.status()}`);
    await page.getByRole("button", { name: "Retry", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("From").selectOption("price");
    // The form begins with what the node got, each digit of it.
    await page.waitForFunction(() => document.querySelector("dialog textarea")?.value.includes("9007199254740993"));
    await dialog.getByLabel("Input for price").fill('{"price": ');
    await dialog.getByRole("button", { name: "Retry", exact: true }).click();
    await dialog.getByText("The input is not JSON").waitFor();
    await dialog.getByLabel("Input for price").fill('{"price": 12}');
    await dialog.getByRole("button", { name: "Retry", exact: true }).click();
    await page.locator(".title .status", { hasText: "Completed" }).waitFor();
    const result = await host.result(id);
    check(result.output === 12, `the output is ${JSON.stringify(result.output)}`);
    await page.locator("aside .status", { hasText: "Completed" }).first().waitFor();
    await visit.open(`runs/${id}?node=price`);
    await page.getByRole("region", { name: "Input, content" }).getByText("12").waitFor();
    // A retry that comes from elsewhere is seen, too.
    const other = await host.start("order", { order: 18 });
    await host.result(other);
    await visit.open(`runs/${other}?node=price`);
    await page.locator(".title .status", { hasText: "Failed" }).waitFor();
    await host.ask("POST", `/api/v1/runs/${other}/retry`, { from: "price", input: { price: 14 } });
    await page.locator(".title .status", { hasText: "Completed" }).waitFor();
    await page.getByRole("region", { name: "Output, content" }).getByText("14").waitFor();
    await visit.end();
  },

  /** The same without a mouse. */
  async keyboard() {
    await host.publish(ORDER);
    const id = await host.start("order", { order: 17 });
    await host.result(id);
    const visit = await Visit.begin(root);
    const { page } = visit;
    const { keyboard } = page;
    await visit.open("runs");
    await visit.tabTo("link", id.slice(0, 13));
    await keyboard.press("Enter");
    await visit.tabTo("listbox", "Nodes");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"]) await keyboard.press(key);
    await page.getByRole("heading", { name: "price" }).waitFor();
    await keyboard.press("Enter");
    check(await page.locator("aside").evaluate((it) => it === document.activeElement), "Enter leads to the details");
    await page.keyboard.press("Shift+Tab");
    await visit.open(`runs/${id}`);
    await visit.tabTo("button", "Retry");
    await keyboard.press("Enter");
    await visit.tabTo("combobox", "From");
    await keyboard.type("price");
    await visit.tabTo("textbox", /Input for price/);
    await page.waitForFunction(() => document.activeElement?.value.includes("17"));
    await keyboard.press("Control+A");
    await keyboard.type('{"price": 13}');
    const submit = page.getByRole("dialog").getByRole("button", { name: "Retry", exact: true });
    while (!(await submit.evaluate((it) => it === document.activeElement))) await keyboard.press("Tab");
    await keyboard.press("Enter");
    await page.locator(".title .status", { hasText: "Completed" }).waitFor();
    check((await host.result(id)).output === 13, "the run has the output of its new input");
    await visit.end();
  },

  /** A run is watched while it waits, is paused, goes on, and ends; and another one is cancelled. */
  async watch() {
    await host.publish({
      workflow: "watched",
      nodes: { first: { set: { a: 1 } }, ask: { event: "go", match: { id: "{{ run.id }}" } }, last: { set: { b: 2 } } },
      edges: ["first -> ask", "ask -> last"],
    });
    const id = await host.start("watched", {});
    const visit = await Visit.begin(root);
    const { page } = visit;
    const status = (word) => page.locator(".title .status", { hasText: word }).waitFor();
    const row = (name, word) => page.getByRole("option", { name: new RegExp(`^${name} .*${word}`) }).waitFor();
    await visit.open(`runs/${id}`);
    await status("Waiting");
    await row("first", "Completed");
    await row("ask", "Waiting");
    await row("last", "Not reached");
    await page.getByRole("button", { name: "Pause" }).click();
    await status("Paused");
    await page.getByRole("button", { name: "Unpause" }).click();
    await status("Waiting");
    await host.ask("POST", "/api/v1/stimuli", { name: "go", match: { id }, input: { by: SCRIPT } });
    // The page is not loaded again.
    await status("Completed");
    await row("ask", "Completed");
    await row("last", "Completed");

    const other = await host.start("watched", {});
    await visit.open(`runs/${other}`);
    await status("Waiting");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("button", { name: "Cancel the run" }).click();
    await status("Cancelled");
    await visit.open("runs?status=cancelled");
    await page.getByRole("link", { name: other.slice(0, 13) }).waitFor();
    check((await page.getByRole("link", { name: id.slice(0, 13) }).count()) === 0, "the list has cancelled runs alone");
    await page.getByRole("button", { name: "Cancelled" }).click();
    await page.getByRole("link", { name: id.slice(0, 13) }).waitFor();
    await page.goBack();
    await page.getByRole("link", { name: id.slice(0, 13) }).waitFor({ state: "detached" });
    await visit.end();
  },

  /** A run is started by the form of its workflow, and each number keeps its digits. */
  async form() {
    await host.publish({
      workflow: "quoted",
      description: SCRIPT,
      input: {
        type: "object",
        required: ["name", "price"],
        properties: {
          name: { type: "string", title: "Who asks", description: SCRIPT },
          price: { type: "number" },
          size: { enum: ["small", "large"] },
          count: { type: "integer", minimum: 1, default: 3 },
          fast: { type: "boolean" },
          more: { $ref: "#/$defs/more" },
        },
        $defs: { more: { type: "object" } },
      },
      nodes: { a: { set: { seen: "{{ input.count }}" } } },
      output: "{{ input }}",
    });
    const visit = await Visit.begin(root);
    const { page } = visit;
    visit.mayLose = true;
    await visit.open("workflows");
    await page.getByRole("link", { name: "quoted", exact: true }).click();
    await visit.accessible("a workflow");
    await page.getByRole("button", { name: "Start a run" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Who asks").fill(SCRIPT);
    await dialog.getByLabel("price").fill("12345678901234567890.50");
    await dialog.getByLabel("size").selectOption("large");
    await dialog.getByLabel("more").fill('{"id": 9007199254740993}');
    await dialog.getByLabel("count").fill("0");
    await visit.accessible("the form of a start");
    await dialog.getByRole("button", { name: "Start", exact: true }).click();
    // The host checks the schema.
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("count").fill("");
    await dialog.getByRole("button", { name: "As JSON" }).click();
    check((await dialog.getByLabel("Input, as JSON").inputValue()).includes("12345678901234567890.50"), "the JSON has all digits");
    await dialog.getByRole("button", { name: "Start", exact: true }).click();
    await page.locator(".title .status", { hasText: "Completed" }).waitFor();
    await visit.sees("9007199254740993");
    const { pathname } = new URL(page.url());
    const id = pathname.split("/").at(-1);
    const answer = await fetch(`${address}/api/v1/runs/${id}/input`);
    const { input } = JSON.parse((await answer.text()).replace("12345678901234567890.50", '"exact"'));
    check(input.price === "exact" && input.size === "large" && input.count === 3 && input.name === SCRIPT, JSON.stringify(input));
    await visit.end();
  },

  /** A person answers a question of a run from the page of what needs attention. */
  async answer() {
    await host.publish({
      workflow: "asks",
      nodes: { ask: { use: "human/confirm@1", with: { message: "Ship the order?" } }, ship: { set: { shipped: true } } },
      edges: ["ask.* -> ship"],
    });
    const id = await host.start("asks", {});
    const visit = await Visit.begin(root);
    const { page } = visit;
    await visit.open("");
    await visit.sees("Ship the order?");
    const opened = visit.context.waitForEvent("page");
    await page.getByRole("link", { name: "Answer" }).click();
    const form = await opened;
    await form.locator("form button").first().waitFor();
    await form.getByLabel("approve").check();
    await form.getByRole("button", { name: "Answer" }).click();
    await form.getByText("Thank you").first().waitFor();
    check((await host.result(id)).status === "completed", "the answer lets the run go on");
    await visit.sees("No run waits");
    // A stimulus for which no run has waited in time is a dead letter.
    await host.ask("POST", "/api/v1/stimuli", { name: "late", delivery: "buffer", ttl: "1s", input: {} });
    await page.getByRole("heading", { name: "Dead letters" }).waitFor();
    await page.getByRole("button", { name: "Replay" }).first().click();
    const replayed = async () => (await host.ask("GET", "/api/v1/dead-letters")).items.some((it) => it.replayed);
    for (let tries = 0; !(await replayed()) && tries < 100; tries++) await page.waitForTimeout(100);
    check(await replayed(), "the dead letter is replayed");
    await visit.end();
  },

  /** Dead letters are found, looked into, replayed and deleted. */
  async letters() {
    await host.publish({ workflow: "hears", triggers: { late: { event: "heard" } }, nodes: { a: { set: { b: 1 } } } });
    for (const [name, input] of [["first", { n: 9007199254740993 }], [SCRIPT, SCRIPT], ["third", null]]) {
      await host.ask("POST", "/api/v1/stimuli", { name, delivery: "buffer", ttl: "1s", correlation: SCRIPT, match: { [SCRIPT]: SCRIPT }, input });
    }
    const letters = async () => (await host.ask("GET", "/api/v1/dead-letters?newest=true")).items;
    const visit = await Visit.begin(root);
    const { page } = visit;
    visit.mayLose = true;
    for (let tries = 0; (await letters()).length < 3 && tries < 300; tries++) await page.waitForTimeout(100);
    const [newest] = await letters();
    await visit.open("dead-letters");
    await visit.sees("no run waited for it in time");
    await visit.sees(SCRIPT);
    await visit.accessible("dead letters");
    check((await page.locator("tbody tr").first().innerText()).startsWith(`${newest.no}`), "the newest is the first");
    const row = page.locator("tbody tr", { hasText: "onerror" });
    await row.getByRole("button", { name: "Look inside" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Match").first().waitFor();
    await visit.accessible("a dead letter");
    check(page.url().includes("no="), "the address has the letter");
    check((await page.locator('img[src="x"]').count()) === 0, "no image comes from data");
    await page.reload();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await dialog.waitFor({ state: "detached" });
    await row.waitFor({ state: "detached" });
    const third = page.locator("tbody tr", { hasText: "third" });
    await third.getByRole("button", { name: "Replay" }).click();
    await third.getByText("replayed").waitFor();
    check((await third.getByRole("button", { name: "Replay" }).count()) === 0, "a letter is replayed once");
    await page.getByRole("button", { name: "Triggers" }).click();
    await visit.sees("No dead letter fits");
    await page.getByRole("button", { name: "Events" }).click();
    await page.getByText("first").waitFor();
    // By the keyboard alone.
    await visit.tabTo("button", "Delete old ones");
    await page.keyboard.press("Enter");
    await dialog.getByLabel("Older than").waitFor();
    await visit.accessible("the form that deletes old letters");
    await visit.tabTo("button", "Leave them");
    await page.keyboard.press("Enter");
    await dialog.waitFor({ state: "detached" });
    check((await letters()).length >= 2, "nothing was deleted by that");
    await visit.end();
  },

  /** A schedule is paused, unpaused and run now; its next starts are shown. */
  async schedules() {
    await host.publish({
      workflow: "report", description: SCRIPT,
      triggers: { nightly: { cron: "0 2 * * *", timezone: "Europe/Berlin" }, slow: { every: "90d" } },
      nodes: { a: { set: { b: 1 } } },
    });
    const visit = await Visit.begin(root);
    const { page } = visit;
    await visit.open("schedules");
    const row = page.locator("tbody tr", { hasText: "nightly" });
    await row.getByText("0 2 * * * Europe/Berlin").waitFor();
    await visit.accessible("schedules");
    await row.getByTitle("All next starts").click();
    const dialog = page.getByRole("dialog");
    await dialog.locator("li").nth(19).waitFor();
    await visit.accessible("the next starts");
    await dialog.getByRole("button", { name: "Close" }).click();
    await row.getByRole("button", { name: "Pause" }).click();
    await row.getByText("paused since").waitFor();
    check((await host.ask("GET", "/api/v1/schedules/nightly")).state === "paused", "the schedule is paused");
    await visit.open("workflows/report");
    await visit.sees("paused since");
    await visit.sees("Pause or run them now");
    await page.getByRole("link", { name: "Pause or run them now" }).click();
    await row.getByRole("button", { name: "Unpause" }).click();
    await row.getByTitle("All next starts").waitFor();
    // By the keyboard alone.
    await visit.tabTo("button", "Run now report:nightly");
    await page.keyboard.press("Enter");
    await row.getByRole("link", { name: "started" }).click();
    await page.locator(".title .status", { hasText: "Completed" }).waitFor();
    await visit.end();
  },

  /** Two versions of a workflow are compared, and an old one is looked at. */
  async versions() {
    const version = (total, more = {}) => ({
      workflow: "order", description: SCRIPT, nodes: { price: { set: { total } }, ...more }, output: SCRIPT,
    });
    await host.publish(version("9007199254740993"));
    const visit = await Visit.begin(root);
    const { page } = visit;
    await visit.open("workflows/order?view=versions");
    await visit.sees("It is the only version so far.");
    await host.publish(version("9007199254740995"));
    await host.publish(version("9007199254740995", { later: { wait: "1s" } }));
    await visit.open("workflows/order");
    await page.getByRole("link", { name: "Versions" }).click();
    await visit.sees("From version 2 to version 3");
    const lines = (kind) => page.locator(`.diff .${kind}`);
    await lines("added").filter({ hasText: "later" }).waitFor();
    await page.getByRole("button", { name: "since version 1" }).click();
    await lines("removed").filter({ hasText: "9007199254740993" }).waitFor();
    check((await lines("removed").count()) === 1 && (await lines("added").count()) === 1, "one line differs");
    await lines("added").filter({ hasText: "9007199254740995" }).waitFor();
    await visit.accessible("versions");
    check((await page.locator('img[src="x"]').count()) === 0, "no image comes from data");
    await page.getByRole("button", { name: "until version 3" }).last().click();
    await visit.sees("From version 1 to version 3");
    check(page.url().includes("from=1"), "the address has both versions");
    // Comments are a part of the text, and of no definition.
    for (const note of ["one", "two"]) {
      const text = `# note ${note} ${SCRIPT}\nworkflow: noted\nnodes:\n  ${note}: { set: { x: 1 } }\n`;
      await host.ask("PUT", "/api/v1/definitions/noted", text, "application/yaml");
    }
    await visit.open("workflows/noted?view=versions");
    await visit.sees("# note two");
    await visit.open("workflows/noted");
    await page.getByText("Text as published").click();
    await visit.sees("# note two");
    await visit.open("workflows/order?view=versions&from=1&to=3");
    await page.getByRole("link", { name: "1", exact: true }).click();
    await visit.sees("This version is not published");
    await visit.accessible("an old version");
    check((await page.getByRole("button", { name: "Start a run" }).count()) === 0, "an old version is not started");
    await page.getByRole("link", { name: "The published version" }).click();
    await page.getByRole("button", { name: "Start a run" }).waitFor();
    await visit.end();
  },

  /** The host shows its memory and its members, and is paused. */
  async host() {
    const visit = await Visit.begin(root);
    const { page } = visit;
    await visit.open("host");
    await visit.sees("run_data");
    await visit.sees("this host");
    await visit.accessible("the host");
    await page.getByRole("button", { name: "Pause the host" }).click();
    await page.locator(".banner", { hasText: "This host is paused" }).waitFor();
    await visit.accessible("a paused host");
    check((await host.ask("GET", "/api/v1/admin/pause")).paused, "the host is paused");
    await page.locator("main").getByRole("button", { name: "Unpause the host" }).click();
    await page.getByText("accepts work").waitFor();
    await page.locator(".banner").waitFor({ state: "detached" });
    await visit.end();
  },

  /** Plugins are shown with their nodes, and files that are none with their faults. */
  async plugins() {
    const visit = await Visit.begin(root);
    const { page } = visit;
    await visit.open("");
    await visit.sees("broken.wasm");
    await visit.open("plugins");
    await visit.sees("broken.wasm");
    await visit.sees("<img src=x onerror=alert(1)>.wasm");
    check((await page.locator('img[src="x"]').count()) === 0, "no image comes from a name");
    await visit.accessible("plugins");
    await page.getByRole("link", { name: "fetch", exact: true }).click();
    await visit.sees("https://shop.example");
    await visit.sees("HTTP requests");
    await visit.accessible("a plugin with grants");
    await page.getByRole("link", { name: "Plugins", exact: true }).last().click();
    await page.getByRole("link", { name: "data", exact: true }).click();
    await visit.sees("None: it reaches nothing outside of its call.");
    // By the keyboard alone.
    const node = page.locator("summary", { hasText: "data/jq" });
    await node.focus();
    await page.keyboard.press("Enter");
    await page.getByText("Schema of the configuration").first().waitFor();
    await visit.accessible("a node of a plugin");
    visit.mayLose = true;
    await visit.open("plugins/nothing");
    await visit.sees("there is no plugin");
    await visit.end();
  },

  /** Script in every field that people and data can fill is text. */
  async hostile() {
    await host.publish({
      workflow: "hostile",
      description: SCRIPT,
      tags: { customer: "{{ input.text }}" },
      vars: { kept: SCRIPT },
      nodes: {
        a: { title: SCRIPT, description: SCRIPT, set: { seen: SCRIPT } },
        wait: { event: SCRIPT, title: SCRIPT },
        b: { fail: { message: SCRIPT, data: { [SCRIPT]: SCRIPT } } },
      },
      edges: [{ from: "a", to: "b", when: "input.fails" }, { from: "a", to: "wait", when: "else" }],
      output: SCRIPT,
    });
    const input = { text: SCRIPT, [SCRIPT]: [SCRIPT] };
    const failed = await host.start("hostile", { ...input, fails: true }, { correlation: SCRIPT });
    const waits = await host.start("hostile", { ...input, fails: false }, { correlation: SCRIPT });
    await host.result(failed);
    const visit = await Visit.begin(root);
    const { page } = visit;
    const clean = async () => {
      check((await page.locator("script").count()) === 2, "the page has its own scripts alone");
      check((await page.locator('img[src="x"]').count()) === 0, "no image comes from data");
    };
    const pages = [
      "", "runs", `runs?correlation=${encodeURIComponent(SCRIPT)}`, `runs?workflow=${encodeURIComponent(SCRIPT)}`,
      `runs/${failed}`, `runs/${failed}?node=b`, `runs/${failed}?node=a`, `runs/${waits}`, `runs/${waits}?node=wait`,
      `runs/${waits}?node=${encodeURIComponent(SCRIPT)}`,
    ];
    for (const path of pages) {
      await visit.open(path);
      await page.locator("main h1").first().waitFor();
      await page.waitForLoadState("networkidle", { timeout: 3000 }).catch(() => {});
      await clean();
    }
    await visit.open(`runs/${failed}?node=b`);
    await visit.sees(SCRIPT);
    // An address that names no run, and none that the console has.
    visit.mayLose = true;
    for (const path of [`runs/${encodeURIComponent(SCRIPT)}`, encodeURIComponent(SCRIPT)]) {
      await visit.open(path);
      await clean();
    }
    await visit.end();
  },

  /** Each page is accessible, in light and dark, wide and narrow, with data and without. */
  async pages() {
    const states = [{ colorScheme: "light" }, { colorScheme: "dark", viewport: { width: 420, height: 800 } }];
    const at = async (visit, path, text) => {
      await visit.open(path);
      await visit.sees(text);
      await visit.accessible(path);
      check(
        await visit.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
        `${path} is wider than its window`,
      );
    };
    for (const state of states) {
      const visit = await Visit.begin(root, state);
      await at(visit, "", "No run has failed");
      await at(visit, "runs", "There are no runs yet");
      await at(visit, "workflows", "No workflow is published");
      await at(visit, "schedules", "No published workflow has a schedule");
      await at(visit, "dead-letters", "There are no dead letters");
      await at(visit, "plugins", "data");
      await at(visit, "plugins/data", "Limits of a call");
      await at(visit, "host", "plugin_memory");
      await visit.end();
    }
    await host.publish(ORDER);
    await host.publish({
      workflow: "every",
      triggers: { nightly: { cron: "0 2 * * *" }, heard: { event: "heard" } },
      nodes: {
        each: { "for-each": "{{ input.items }}", nodes: { one: { set: { n: "{{ item }}" } }, two: { set: { m: 1 } } }, edges: ["one -> two"] },
        ask: { event: "never", "wait-timeout": "3d" },
        side: { wait: "3d" },
      },
      edges: ["each -> ask", "each -> side"],
    });
    const failed = await host.start("order", { order: 1 });
    const waits = await host.start("every", { items: [...Array(40).keys()] });
    await host.result(failed);
    await host.publish({ ...ORDER, description: "another version" });
    await host.ask("POST", "/api/v1/stimuli", { name: "late", delivery: "buffer", ttl: "1s", input: { n: 1 } });
    const dead = async () => (await host.ask("GET", "/api/v1/dead-letters")).items.length > 0;
    for (let tries = 0; !(await dead()) && tries < 300; tries++) await new Promise((done) => setTimeout(done, 100));
    for (const state of states) {
      const visit = await Visit.begin(root, state);
      await at(visit, "", "the order has no price");
      await at(visit, "runs", "the order has no price");
      await at(visit, "workflows", "Runs of every");
      await at(visit, "workflows/every?node=ask", "Configuration");
      await at(visit, "workflows/every", "Next starts");
      await at(visit, "workflows/order?view=versions", "another version");
      await at(visit, "schedules", "every");
      await at(visit, "dead-letters", "no run waited for it in time");
      await at(visit, `runs/${failed}`, "Show the node price");
      await at(visit, `runs/${failed}?node=price`, "Configuration");
      await visit.page.getByRole("button", { name: "Retry", exact: true }).click();
      await visit.accessible("the form of a retry");
      await at(visit, `runs/${waits}`, "Waits for");
      await at(visit, `runs/${waits}?node=one`, "Configuration");
      visit.mayLose = true;
      await at(visit, "nowhere", "There is no such page");
      await at(visit, "runs/85e816d2-0ca8-8547-9c5b-628fca6ffca2", "85e816d2");
      await visit.end();
    }
  },

  /** The picture of a run for the documents, in light and dark. */
  async picture() {
    await host.publish({
      workflow: "order",
      tags: { customer: "{{ input.customer }}" },
      nodes: {
        check: { title: "Check the order", set: { checked: true } },
        reserve: { title: "Reserve each item", "for-each": "{{ input.items }}", nodes: { hold: { title: "Hold in the warehouse", wait: "40ms" } } },
        price: { title: "Ask for the price", use: "data/jq", with: { filter: "if .rate then .rate * 2 else error(\"there is no rate for \" + .currency) end" },
          input: "{{ input }}", retry: { "max-attempts": 3, delay: "300ms" } },
        fraud: { title: "Look for fraud", wait: "500ms" },
        charge: { title: "Charge the card", set: { charged: true } },
        approve: { title: "Ask the shop", event: "approved", match: { order: "{{ input.order }}" } },
        ship: { title: "Ship the order", set: { shipped: true } },
      },
      edges: ["check -> reserve", "check -> fraud", "reserve -> price", "price -> charge", "fraud -> charge", "charge -> approve", "approve -> ship"],
    });
    const id = await host.start("order", { order: "o-1042", customer: "c-17", currency: "CHF", items: [1, 2, 3, 4, 5] }, { correlation: "o-1042" });
    await host.result(id);
    for (const colorScheme of ["light", "dark"]) {
      const visit = await Visit.begin(root, { colorScheme, viewport: { width: 1180, height: 700 }, locale: "en-GB", timezoneId: "UTC" });
      await visit.open(`runs/${id}?node=price`);
      await visit.sees("there is no rate for CHF");
      await visit.page.getByText("Configuration").first().waitFor();
      await visit.page.waitForLoadState("networkidle", { timeout: 3000 }).catch(() => {});
      await visit.page.screenshot({ path: `${process.env.WINDLASS_PICTURES}/run-${colorScheme}.png` });
      await visit.end();
    }
  },

  /** A host with a token asks for it once, and a logout ends the session. */
  async login() {
    const id = await host.start("order", { order: 1 }).catch(async () => {
      await host.publish(ORDER);
      return host.start("order", { order: 1 });
    });
    const visit = await Visit.begin(root);
    const { page } = visit;
    visit.mayLose = true;
    await visit.open("runs");
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await visit.sees("This is not the token of this host.");
    await visit.accessible("the login");
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("link", { name: id.slice(0, 13) }).click();
    await visit.sees("the order has no price");
    await page.reload();
    await visit.sees("the order has no price");
    const cookies = await visit.context.cookies();
    check(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === "Strict", JSON.stringify(cookies));
    check(!cookies[0].value.includes(token), "the cookie does not have the token");
    check((await page.evaluate(() => document.cookie)) === "", "no script reads the cookie");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
    // Neither the browser nor a copy of the cookie is logged in any more.
    await page.reload();
    await page.getByLabel("Token").waitFor();
    const stolen = await fetch(`${address}/api/v1/runs`, { headers: { Cookie: `${cookies[0].name}=${cookies[0].value}` } });
    check(stolen.status === 401, `the old cookie is answered with ${stolen.status}`);
    await visit.end();
  },

  /** A page that watches a run survives the death of its host. */
  async lost() {
    await host.publish({ workflow: "long", nodes: { ask: { event: "go" }, last: { set: { b: 2 } } }, edges: ["ask -> last"] });
    const id = await host.start("long", {});
    const visit = await Visit.begin(root);
    const { page } = visit;
    visit.mayLose = true;
    await visit.open(`runs/${id}`);
    await page.locator(".title .status", { hasText: "Waiting" }).waitFor();
    console.log("watching");
    await visit.sees("Stale since");
    console.log("stale");
    // The test starts the host again, and the page goes on by itself.
    await page.getByText("Stale since").waitFor({ state: "detached" });
    await host.ask("POST", "/api/v1/stimuli", { name: "go", input: {} });
    await page.locator(".title .status", { hasText: "Completed" }).waitFor();
    await visit.end();
  },

  /** A proxy may add a prefix to all paths. */
  async prefix() {
    await host.publish(ORDER);
    const id = await host.start("order", { order: 1 });
    await host.result(id);
    const target = new URL(address);
    const proxy = http.createServer((request, response) => {
      if (!request.url.startsWith("/flows/")) {
        response.writeHead(404).end();
        return;
      }
      const passed = http.request({
        host: target.hostname, port: target.port, path: request.url.slice("/flows".length),
        method: request.method, headers: request.headers,
      }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      request.pipe(passed);
    });
    await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
    const visit = await Visit.begin(`http://127.0.0.1:${proxy.address().port}/flows/ui/`);
    const { page } = visit;
    await page.goto(`http://127.0.0.1:${proxy.address().port}/flows/`);
    await visit.sees("the order has no price");
    await page.getByRole("link", { name: "Newest run" }).first().click();
    await page.getByRole("button", { name: "Show the node price" }).click();
    await page.reload();
    await visit.sees("Configuration");
    check(new URL(page.url()).pathname === `/flows/ui/runs/${id}`, page.url());
    await visit.end();
    proxy.closeAllConnections();
    proxy.close();
  },
};

try {
  await journeys[journey]();
  console.log(`${journey}: done`);
} catch (error) {
  console.error(error.stack);
  for (const visit of Visit.all) console.error(visit.wrong.join("\n"));
  process.exit(1);
}
