// The node `__NAME__/greet`.

import { failure, node } from "windlass";

interface Input {
  /** The name of the person. */
  name: string;
}

export const greet = node({
  title: "Greet",
  run({ name }: Input) {
    if (name === "") throw failure.invalid("`name` is empty");
    return { greeting: `Hello, ${name}!` };
  },
});
