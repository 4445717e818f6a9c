// Drives a running host by the types that are generated from the document of its HTTP API.
//
// Usage: node drive.js URL. The compiler checks each path, parameter, body and member against the
// document; the program checks what a host answers.

import createClient from "openapi-fetch";
import type { components, paths } from "./windlass.js";

declare const process: { argv: string[] };

type Status = components["schemas"]["RunStatus"];

const WORKFLOW = "typescript-client";

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });

/** The answer, which has to be there. */
function good<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) {
    throw new Error(`an error in place of an answer: ${JSON.stringify(answer.error)}`);
  }
  return answer.data;
}

function same(what: string, seen: unknown, expected: unknown): void {
  if (JSON.stringify(seen) !== JSON.stringify(expected)) {
    throw new Error(`${what} is ${JSON.stringify(seen)} and not ${JSON.stringify(expected)}`);
  }
}

async function start(order: number): Promise<string> {
  const body = { workflow: WORKFLOW, input: { order }, create_only: false };
  return good(await client.POST("/api/v1/runs", { body })).id;
}

/** The number of the only bookmark of a run, once the run waits there. */
async function question(run: string): Promise<number> {
  for (;;) {
    const query = { run };
    const page = good(await client.GET("/api/v1/bookmarks", { params: { query } }));
    const bookmark = page.items[0];
    if (bookmark !== undefined) {
      same("the run of the bookmark", bookmark.run, run);
      return bookmark.no;
    }
    const outcome = good(await result(run, "50ms"));
    same("the run", outcome.done, false);
  }
}

function result(id: string, wait: string) {
  const params = { path: { id }, query: { wait } };
  return client.GET("/api/v1/runs/{id}/result", { params });
}

async function main(): Promise<void> {
  const definition = {
    workflow: WORKFLOW,
    nodes: { ask: { use: "human/confirm@1", with: { message: "Really?" } } },
    output: "{{ nodes.ask.output.decision }}",
  };
  const published = good(
    await client.PUT("/api/v1/definitions/{name}", {
      params: { path: { name: WORKFLOW } },
      body: definition,
    }),
  );
  same("the version", published.version, 1);

  const approved = await start(1);
  const bookmark = String(await question(approved));
  const resume = (decision: string) =>
    client.POST("/api/v1/bookmarks/{bookmark}/resume", {
      params: { path: { bookmark } },
      body: { input: { decision } },
    });
  const wrong = await resume("perhaps");
  same("the code of a wrong answer", wrong.error?.code, "WL-R160");
  same("the resumed runs", good(await resume("approve")).resumed, [approved]);
  const outcome = good(await result(approved, "30s"));
  const completed: Status = "completed";
  same("the status", outcome.status, completed);
  same("the output", outcome.output, "approve");

  const cancelled = await start(2);
  await question(cancelled);
  const params = { path: { id: cancelled }, query: { wait: "30s" } };
  const ended = good(await client.POST("/api/v1/runs/{id}/cancel", { params }));
  same("the status", ended.status, "cancelled" satisfies Status);

  const query = { workflow: WORKFLOW };
  const runs = good(await client.GET("/api/v1/runs", { params: { query } }));
  same("the runs", runs.items.map((run) => run.id), [cancelled, approved]);
  same("a longer wait than the host allows", (await result(approved, "1h")).error?.code, "WL-H018");
}

await main();
