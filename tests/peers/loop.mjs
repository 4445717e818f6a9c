// Runs `one` again and again with so many at a time, for so many seconds, and prints the milliseconds
// of each as JSON lines: {"in_flight": …, "seconds": …, "ms": […]}.
export async function sweep(one) {
  const seconds = Number(process.env.SECONDS);
  const most = Number(process.env.REQUESTS || "Infinity");
  await during(1, 16, one, most);
  for (const inFlight of process.env.LEVELS.split(" ").map(Number)) {
    const begin = performance.now();
    const ms = await during(seconds, inFlight, one, most);
    console.log(JSON.stringify({ in_flight: inFlight, seconds: (performance.now() - begin) / 1000, ms }));
  }
}

async function during(seconds, inFlight, one, most) {
  const end = performance.now() + seconds * 1000;
  const ms = [];
  const client = async () => {
    while (performance.now() < end && ms.length < most) {
      const begin = performance.now();
      await one();
      ms.push(performance.now() - begin);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, client));
  return ms;
}
