// The node `__NAME__/greet`.

import { failure, node } from "windlass";

export const greet = node({
  title: "Greet",
  input: {
    type: "object",
    properties: { name: { type: "string", description: "The name of the person." } },
    required: ["name"],
  },
  output: {
    type: "object",
    properties: { greeting: { type: "string" } },
    required: ["greeting"],
  },
  run({ name }) {
    if (name === "") throw failure.invalid("`name` is empty");
    return { greeting: `Hello, ${name}!` };
  },
});
