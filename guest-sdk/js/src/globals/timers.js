// Timers, which say what to do instead.

const refused = (name) => () => {
  throw new Error(
    `${name} does not exist in a plugin: nothing goes on after the call. To wait or to poll, return again({ afterMs }) or suspend({ bookmarks })`,
  );
};

for (const name of ["setTimeout", "setInterval", "setImmediate"]) globalThis[name] = refused(name);
for (const name of ["clearTimeout", "clearInterval", "clearImmediate"]) globalThis[name] = () => {};
