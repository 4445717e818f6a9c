// The types of the test kit.

import type { Bookmark, ConsumerDefinition, Finding, NodeDefinition, Resumption } from "../index.js";
import { Headers, Response } from "../index.js";

export { Headers, Response };

/** A request that a node sent; the value of a header is a text or the name of a secret. */
export interface SentRequest {
  method: string;
  url: string;
  headers: Record<string, string | { secret: string }>;
  body?: string | Uint8Array;
}

/** What the fake host answers. */
export interface Options {
  /** The number of the attempt; default: 1. */
  attempt?: number;
  /** The wall clock: milliseconds since 1970. */
  nowMs?: number;
  runId?: string;
  workflow?: string;
  nodeId?: string;
  idempotencyKey?: string;
  correlationId?: string;
  /** Whether the execution was cancelled. */
  cancelled?: boolean;
  /** Values by their path, such as `{ "vars.currency": "EUR" }`. */
  memory?: Record<string, unknown>;
  /** Blobs by their reference. */
  blobs?: Record<string, Uint8Array>;
  /** Why the node is called again. */
  resumption?: Partial<Resumption>;
  /** Answers requests: a response, or the code of an error such as `"timeout"`. */
  http?: (request: SentRequest) => Response | "denied" | "timeout" | "unreachable" | "no-secret" | "limit";
}

/** What a call did. */
export interface Report<Output = any> {
  outcome: "done" | "suspend" | "again" | "failed";
  /** If done. */
  output: Output;
  /** If done. */
  ports: string[];
  /** If it suspends or asks for another call. */
  state?: any;
  /** If it asks for another call. */
  afterMs?: number;
  /** If it suspends. */
  bookmarks?: Bookmark[];
  /** If it failed. */
  failure?: {
    class: string;
    message: string;
    details?: any;
    position?: { source?: string; line: number; column: number };
    afterMs?: number;
    /** What was thrown. */
    error: unknown;
  };
  log: { level: string; message: string; fields: Record<string, string> }[];
  progress: { fraction: number; note: string }[];
  requests: SentRequest[];
  sent: { name: string; match?: any; correlation?: string; run?: string; input?: any }[];
  scheduled: { node: string; at: number; payload?: any }[];
  blobs: Record<string, Uint8Array>;
}

/** Runs a node once against a fake host. */
export function call<Input, Output, Config>(
  node: NodeDefinition<Input, Output, Config>,
  options?: Options & { input?: Input; config?: Config },
): Promise<Report<Output>>;

/** Offers a trigger to a consumer. */
export function accept(
  consumer: ConsumerDefinition,
  trigger?: { kind?: string; node?: string; payload?: Record<string, unknown> },
  options?: Options,
): Promise<{
  outcome: "execute" | "handled" | "later" | "reject" | "failed";
  vars?: any;
  afterMs?: number;
  reason?: string;
  failure?: Report["failure"];
  log: Report["log"];
}>;

/** Checks a configuration. */
export function check<Config>(
  node: NodeDefinition<any, any, Config>,
  config: Partial<Config>,
  unknown?: string[],
): Finding[];
