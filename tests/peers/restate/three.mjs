// A workflow of three steps in Restate, over HTTP.
// Node.js before version 22 lacks this function, which the SDK calls.
Promise.withResolvers ??= () => {
  const both = {};
  both.promise = new Promise((resolve, reject) => Object.assign(both, { resolve, reject }));
  return both;
};
const restate = await import("@restatedev/restate-sdk");

const three = restate.service({
  name: "Three",
  handlers: {
    run: async (context, input) => {
      let value = input.n;
      for (let step = 0; step < 3; step++) value = await context.run(`step ${step}`, () => value + 1);
      return value;
    },
  },
});
restate.serve({ services: [three], port: Number(process.env.PORT) });
