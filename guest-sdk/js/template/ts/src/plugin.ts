// The plugin `__NAME__`.

export { gate } from "./gate.js";
export { greet } from "./greet.js";
