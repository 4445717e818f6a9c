// Stacks with the author's files and lines. The build leaves the way from the bundle to the sources
// in `globalThis.__windlass_map`, and it is read when something fails.

/** The frames of an error: `{ name, source, line, column }`, innermost first. */
export function frames(error) {
  const found = [];
  for (const line of String(error?.stack ?? "").split("\n")) {
    // QuickJS and Node write "    at name (file:1:2)", StarlingMonkey "name@file:1:2".
    const match = /^\s*(?:at )?(.*?)[ @]?\(?([^()\s@]*):(\d+):(\d+)\)?$/.exec(line);
    const frame = match && original(Number(match[3]), Number(match[4]), match[2]);
    if (frame) found.push({ name: match[1] || "<anonymous>", ...frame });
  }
  return found;
}

/** A position in the sources; none for one that is not in the author's files. */
function original(line, column, file) {
  const map = globalThis.__windlass_map;
  if (!map) return { source: file, line, column };
  // Each segment has the differences to the one before: line and column of the bundle, number of
  // the source, line and column in it. The number -1 is no file of the author.
  const at = [0, 0, 0, 0, 0];
  let best;
  for (const segment of map.segments.split(";")) {
    const [down, ...rest] = segment.split(",").map(Number);
    at[0] += down;
    if (down) at[1] = 0;
    rest.forEach((value, index) => (at[index + 1] += value));
    if (at[0] > line || (at[0] === line && at[1] >= column)) break;
    best = [...at];
  }
  const source = best && map.sources[best[2]];
  if (!source) return undefined;
  const shift = best[0] === line ? Math.max(0, column - 1 - best[1]) : 0;
  return { source, line: best[3], column: best[4] + 1 + shift };
}

/** The stack as text, with the author's files. */
export function stack(error) {
  return frames(error)
    .map(({ name, source, line, column }) => `    at ${name} (${source}:${line}:${column})`)
    .join("\n");
}

/** An error with its stack, for a log. */
export function readable(error) {
  const where = stack(error);
  const cause = error.cause instanceof Error ? `\ncaused by ${readable(error.cause)}` : "";
  return `${error.name}: ${error.message}${where && `\n${where}`}${cause}`;
}

/** The innermost frame in a file of the author, rather than in a package. */
export function author(error) {
  const all = frames(error);
  return all.find(({ source }) => !source.includes("node_modules/")) ?? all[0];
}
