import { here, refuse } from "../world.js";

const find = (blob) => here().blobs[blob] ?? refuse("not-found", blob);

export const size = (blob) => find(blob).length;
export const read = (blob, offset, length) => find(blob).slice(offset, offset + length);
export const begin = () => here().writers.push([]) - 1;
export const append = (writer, bytes) => void here().writers[writer].push(bytes);

export function finish(writer) {
  const { blobs, writers } = here();
  const name = `blob-${Object.keys(blobs).length + 1}`;
  blobs[name] = new Uint8Array(Buffer.concat(writers[writer]));
  return name;
}
