// Promises that this SDK settles itself: a call of a component is synchronous, and the engine runs
// its own jobs only after the call has returned. The build turns `async` into generators over these.

import "./globals/timers.js";
import Promise from "promise-polyfill";

const jobs = [];

Promise._immediateFn = (job) => jobs.push(job);
Promise._unhandledRejectionFn = (reason) => {
  globalThis.console?.warn("a promise was rejected and nothing handles it:", reason);
};

Promise.withResolvers ??= () => {
  const parts = {};
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }));
  return parts;
};

/** As the global function: runs the function after the current job. */
export const queueMicrotask = (job) => void jobs.push(job);

/** Runs jobs until the promise is settled, and gives its value or throws its reason. */
export function settle(promise) {
  let outcome;
  promise.then(
    (value) => (outcome = { value }),
    (reason) => (outcome = { reason }),
  );
  for (let at = 0; !outcome; at++) {
    if (at === jobs.length) {
      jobs.length = 0;
      throw new Error(
        "the promise is never settled: nothing in a plugin goes on after the call; to wait, return again({ afterMs }) or suspend({ bookmarks })",
      );
    }
    jobs[at]();
  }
  jobs.length = 0;
  if ("reason" in outcome) throw outcome.reason;
  return outcome.value;
}

export { Promise };
