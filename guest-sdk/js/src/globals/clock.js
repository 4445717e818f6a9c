import { Date, performance } from "../clock.js";

Object.assign(globalThis, { Date, performance });
