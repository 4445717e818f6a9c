import { proxyActivities } from "@temporalio/workflow";

const { step } = proxyActivities({ startToCloseTimeout: "30s" });

export async function three(value) {
  for (let count = 0; count < 3; count++) value = await step(value);
  return value;
}
