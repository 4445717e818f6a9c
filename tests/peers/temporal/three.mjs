// A workflow of three activities in Temporal; worker and client are this process.
import { fileURLToPath } from "node:url";
import { Client, Connection } from "@temporalio/client";
import { bundleWorkflowCode, DefaultLogger, NativeConnection, Runtime, Worker } from "@temporalio/worker";
import { sweep } from "../loop.mjs";

const logger = new DefaultLogger("ERROR");
Runtime.install({ logger, telemetryOptions: { logging: { forward: {}, filter: "ERROR" } } });
const address = process.env.ADDRESS;
const workflowsPath = fileURLToPath(new URL("workflows.mjs", import.meta.url));
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address }),
  taskQueue: "three",
  workflowBundle: await bundleWorkflowCode({ workflowsPath, logger }),
  activities: { step: async (value) => value + 1 },
  maxConcurrentActivityTaskExecutions: 300,
  maxConcurrentWorkflowTaskExecutions: 100,
  maxCachedWorkflows: 1000,
});
const done = worker.run();
const client = new Client({ connection: await Connection.connect({ address }) });
let count = 0;
await sweep(async () => {
  const workflowId = `three-${process.pid}-${count++}`;
  const result = await client.workflow.execute("three", { taskQueue: "three", workflowId, args: [5] });
  if (result !== 8) throw new Error("a wrong result");
});
worker.shutdown();
await done;
process.exit(0);
