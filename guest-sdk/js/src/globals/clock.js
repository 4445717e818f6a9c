import { Date, performance } from "../clock.js";

// The engine's own constructor would ask a clock that a component does not have.
Date.prototype.constructor = Date;
Object.assign(globalThis, { Date, performance });
