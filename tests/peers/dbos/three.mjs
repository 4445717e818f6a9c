// A workflow of three steps in DBOS on PostgreSQL, started in its own process.
import { DBOS } from "@dbos-inc/dbos-sdk";
import { sweep } from "../loop.mjs";

DBOS.setConfig({
  name: "three",
  systemDatabaseUrl: process.env.DATABASE,
  systemDatabasePoolSize: 20,
  logLevel: "error",
  runAdminServer: false,
});
const three = DBOS.registerWorkflow(
  async (value) => {
    for (let step = 0; step < 3; step++) {
      value = await DBOS.runStep(async () => value + 1, { name: `step ${step}` });
    }
    return value;
  },
  { name: "three" },
);
await DBOS.launch();
await sweep(async () => {
  if ((await three(5)) !== 8) throw new Error("a wrong result");
});
await DBOS.shutdown();
process.exit(0);
