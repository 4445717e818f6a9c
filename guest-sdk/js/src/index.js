// The library for authors; `index.d.ts` documents it.

export { decide, done, again, suspend } from "./outcome.js";
export { Failure, failure } from "./failure.js";
export { Blob, Raw } from "./data.js";
export { consumer, node } from "./define.js";
export { blobs, events, memory } from "./reach.js";
export { Headers, Response, fetch } from "./http.js";
export { log_ as log } from "./log.js";
export { monotonicMs, nowMs } from "./clock.js";
export { randomBytes } from "./random.js";
