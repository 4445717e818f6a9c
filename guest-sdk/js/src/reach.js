// Data of the run beyond the input, large values, and events.

import * as blobHost from "#host/blobs";
import * as eventHost from "#host/events";
import * as memoryHost from "#host/memory";
import { need } from "./call.js";
import { Blob, asBytes, encodeOptional, optional, optionalText, text, whole, wide } from "./data.js";
import { hostError } from "./failure.js";

const MEMORY_ERRORS = {
  "invalid-path": ["invalid", "is not a path"],
  "too-large": ["permanent", "is more than a payload may have, in bytes"],
};
const BLOB_ERRORS = {
  "not-found": ["permanent", "found no such blob"],
  limit: ["permanent", "is over a limit"],
};
const EVENT_ERRORS = {
  unavailable: ["permanent", "is not granted"],
  invalid: ["invalid", "is malformed"],
  limit: ["permanent", "is over a limit"],
};

function attempt(what, area, map, work) {
  need(what);
  try {
    return work();
  } catch (error) {
    throw hostError(what, area, error, map);
  }
}

/** The value at a path: `input`, `vars.NAME` or `nodes.NAME.output`, and members of it. */
export function memory(path) {
  const found = attempt(`memory ${path}`, "memory", MEMORY_ERRORS, () => memoryHost.get(text(path)));
  return optional(found);
}

export const blobs = {
  /** The length in bytes. */
  size(blob) {
    return attempt("blobs.size", "blobs", BLOB_ERRORS, () => Number(blobHost.size(reference(blob))));
  },
  /** At most `length` bytes from `offset`; fewer at the end. */
  read(blob, offset, length) {
    return attempt("blobs.read", "blobs", BLOB_ERRORS, () =>
      asBytes(blobHost.read(reference(blob), wide(offset, "offset"), whole(length, "length"))),
    );
  },
  /** Writes parts to a new blob, which lives as long as the outcome of the call. */
  write(parts, contentType) {
    return attempt("blobs.write", "blobs", BLOB_ERRORS, () => {
      const writer = blobHost.begin();
      for (const part of ArrayBuffer.isView(parts) ? [parts] : parts) {
        blobHost.append(writer, asBytes(part));
      }
      return new Blob(blobHost.finish(writer), contentType);
    });
  },
};

const reference = (blob) => text(blob instanceof Blob ? blob.reference : blob);

export const events = {
  /** Sends a stimulus with the commit of this call. */
  send({ name, match, correlation, run, input }) {
    const stimulus = {
      name: text(name),
      match: encodeOptional(match),
      correlation: optionalText(correlation),
      run: optionalText(run),
      input: encodeOptional(input),
    };
    attempt(`events.send ${name}`, "events", EVENT_ERRORS, () => eventHost.send(stimulus));
  },
  /** Schedules an execution of a node of this run with the commit of this call. */
  schedule({ node, at, payload }) {
    const trigger = { node: text(node), at: wide(at, "at"), payload: encodeOptional(payload) };
    attempt(`events.schedule ${node}`, "events", EVENT_ERRORS, () => eventHost.schedule(trigger));
  },
};
