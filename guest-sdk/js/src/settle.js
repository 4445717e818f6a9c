// In the place of `promise.js` in a plugin that uses no promises.

export function settle() {
  throw new TypeError("a promise was returned that the build did not see: return it from an async function");
}
