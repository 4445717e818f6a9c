import { Promise, queueMicrotask } from "../promise.js";

Object.assign(globalThis, { Promise, queueMicrotask });
