import { encode, encodeOptional } from "../../data.js";
import { here } from "../world.js";

export const runId = () => here().runId;
export const workflow = () => here().workflow;
export const nodeId = () => here().nodeId;
export const triggerId = () => `${here().runId}/1`;
export const attempt = () => here().attempt;
export const idempotencyKey = () => here().idempotencyKey;
export const deadline = () => here().nowMs + 10_000;
export const correlationId = () => here().correlationId;
export const traceParent = () => undefined;
export const cancelled = () => here().cancelled;
export const resumeToken = (bookmark) => `token-of-${bookmark}`;
export const progress = (fraction, note) => void here().progress.push({ fraction, note });

export function resumption() {
  const given = here().resumption;
  if (!given) return undefined;
  const { reason = "again", phase = 1, state, bookmark, input, metadata } = given;
  const val =
    reason === "resumed"
      ? { bookmark, input: encode(input), metadata: encodeOptional(metadata) }
      : reason === "expired"
        ? bookmark
        : undefined;
  return { reason: { tag: reason, val }, phase, state: encodeOptional(state) };
}
