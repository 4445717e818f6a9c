// The types of the SDK, and its documentation.

/** A value that JSON can hold. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** A whole number: its schema has the type `integer`. */
export type integer = number;

/** A configuration without members. */
export interface NoConfig {}

/** Hints about the needs of a node; the limits of the operator win. */
export interface Resources {
  /** The memory of one instance. */
  memoryBytes?: number;
  /** How long one call may reasonably take. */
  deadlineMs?: number;
  /** How long memory may survive: `warm` between calls, `run` within one run, `call` never. */
  instance?: "warm" | "run" | "call";
}

/** A mistake that a check of a configuration finds. */
export interface Finding {
  /** `error` (default) refuses the workflow, `warning` is only shown. */
  level?: "error" | "warning";
  /** One sentence: what is wrong, and what to do. */
  message: string;
  /** A JSON pointer to the member that is wrong, such as `/headers/2/value`. */
  pointer?: string;
  /** A position in that member, if it is a text. */
  position?: Position;
}

/** A position in a text. */
export interface Position {
  /** The name of the text; without it the text is in the configuration of the node. */
  source?: string;
  /** From 1. */
  line: number;
  /** From 1, in characters; 1 if absent. */
  column?: number;
}

/** A node type. */
export interface NodeOptions<Input, Returned, Config> {
  /** The second half of the node type; default: the name of the export, `toUpper` as `to-upper`. */
  name?: string;
  /** For people. */
  title?: string;
  /** For people; default: the comment before the export. */
  description?: string;
  /** The name of an icon. */
  icon?: string;
  /** Every port that `done` may name; default: `["done"]`. */
  ports?: string[];
  /** What the operator has to grant: `http`, `secrets`, `events`. */
  capabilities?: ("http" | "secrets" | "events")[];
  /** Whether the node may return `suspend` or `again`. */
  suspends?: boolean;
  /** Whether a large input may be given as a `Blob`. */
  byReference?: boolean;
  resources?: Resources;
  /** JSON Schema of the configuration; without it the build derives it from types. */
  config?: object | boolean;
  /** JSON Schema of the input; without it the build derives it from types. */
  input?: object | boolean;
  /** JSON Schema of the output; without it the build derives it from types. */
  output?: object | boolean;
  /** Runs the node once. A plain value is the output; exceptions fail the node. */
  run(input: Input, ctx: Context<Config>): Returned;
  /** Checks a configuration before anything runs; `unknown` are the members with expressions. */
  check?(config: Partial<Config>, unknown: string[]): Finding[] | undefined;
}

/** The output that a node of this return type has. */
export type OutputOf<Returned> = Awaited<Returned> extends infer One
  ? One extends Done<infer Output>
    ? Output
    : One extends Suspend | Again
      ? never
      : One
  : never;

/** A node type, to be exported. */
export interface NodeDefinition<Input, Output, Config> {
  readonly kind: "node";
  /** Only for types. */
  readonly $input: Input;
  /** Only for types. */
  readonly $output: Output;
  /** Only for types. */
  readonly $config: Config;
}

/** A trigger consumer, to be exported. */
export interface ConsumerDefinition {
  readonly kind: "consumer";
}

/** Defines a node type: `export const sum = node({ run(input) { … } })`. */
export function node<Input = unknown, Returned = unknown, Config = NoConfig>(
  about: NodeOptions<Input, Returned, Config> | ((input: Input, ctx: Context<Config>) => Returned),
): NodeDefinition<Input, OutputOf<Returned>, Config>;

/** Defines the trigger consumer of a plugin. */
export function consumer(about: {
  /** Kinds of triggers that it takes; default: `["*"]`, every kind. */
  types?: string[];
  /** Routes that it takes; with any, it gets triggers of these alone. */
  routes?: string[];
  /** Decides about one trigger. After an exception the host keeps the trigger and asks again. */
  accept(trigger: Trigger, ctx: Context): Decision | Promise<Decision>;
}): ConsumerDefinition;

/** A due trigger that is claimed. */
export interface Trigger {
  /** `start`, `next`, `retry`, `loop`, `timer`, `cron`, `manual`, `event`, `resume` or `child`. */
  kind: string;
  /** The node that it executes; undefined for one that starts the workflow. */
  node?: string;
  /** Its data; empty if there is none. */
  payload: Record<string, any>;
}

/** A decision about a trigger. */
export interface Decision {
  readonly decision: "execute" | "handled" | "later" | "reject";
}

/** Makes decisions about triggers. */
export const decide: {
  /** Assigns these members to `vars`, then executes the node or starts the workflow. */
  execute(vars?: object): Decision;
  /** The trigger is finished. */
  handled(): Decision;
  /** Offers the trigger again after `afterMs` milliseconds. */
  later(afterMs: number): Decision;
  /** The trigger becomes a dead letter with this reason. */
  reject(message: string, options?: { details?: unknown; position?: Position }): Decision;
};

/** The context of the current call. Each member asks the host when it is read. */
export interface Context<Config = NoConfig> {
  /** The rendered `with` of the node. */
  readonly config: Config;
  /** The id of the run, a UUID. */
  readonly runId: string;
  /** The name of the workflow. */
  readonly workflow: string;
  /** The node that executes; undefined for a trigger that starts a workflow. */
  readonly nodeId?: string;
  /** The trigger of this call. */
  readonly triggerId: string;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The same over crashes and retries of one execution: send it with side effects. */
  readonly idempotencyKey: string;
  /** The instant at which the host ends this call: milliseconds since 1970. */
  readonly deadlineMs: number;
  /** The correlation id of the run. */
  readonly correlationId?: string;
  /** The W3C trace context of the run. */
  readonly traceParent?: string;
  /** Whether the execution was cancelled: throw `failure.cancelled()` then. */
  readonly cancelled: boolean;
  /** Why the node is called again; undefined in its first call. */
  readonly resumption?: Resumption;
  /** The token that resumes the bookmark of this name; known before the node suspends. */
  resumeToken(bookmark: string): string | undefined;
  /** Reports the progress of a long execution; the fraction is between 0 and 1. */
  progress(fraction: number, note?: string): void;
}

/** A later call of a node that suspended or asked to be called again. */
export interface Resumption {
  /** `again`, `resumed`, `expired`, `cancelled`, or a reason that a later host adds. */
  reason: string;
  /** The number of the repeated call, from 1. */
  phase: number;
  /** The state that the node returned last. */
  state?: any;
  /** The bookmark that was resumed or that expired. */
  bookmark?: string;
  /** The input of the stimulus. */
  input?: any;
  /** The metadata of the bookmark. */
  metadata?: any;
}

/** An event that a node waits for. */
export interface Bookmark {
  /** The name of the stimulus; compared exactly. */
  name: string;
  /** The value that the `match` of the stimulus has to equal. */
  match?: unknown;
  /** Only stimuli of this correlation resume it. */
  correlation?: string;
  /** Only the resume token of this wait resumes it. */
  private?: boolean;
  /** Resuming deletes it; default: true. */
  autoBurn?: boolean;
  /** Data that comes back unread with the resumption. */
  metadata?: unknown;
  /** When the wait ends by itself: a `Date` or milliseconds since 1970. */
  expiresAt?: Date | number;
}

/** The outcome "done" with ports. */
export interface Done<Output> {
  readonly output: Output;
  readonly ports: string[];
}

/** The outcome "wait". */
export interface Suspend {
  readonly bookmarks: Bookmark[];
  readonly state: unknown;
}

/** The outcome "call me again". */
export interface Again {
  readonly afterMs: number;
  readonly state: unknown;
}

/** Finished, with this output, by these ports; without a port, by `done`. */
export function done<Output>(output: Output, ...ports: string[]): Done<Output>;

/** Waits until one of the bookmarks is resumed or expires; needs `suspends: true`. */
export function suspend(about: { bookmarks: Bookmark[]; state?: unknown }): Suspend;

/** Asks to be called again after `afterMs` milliseconds; needs `suspends: true`. */
export function again(about: { afterMs: number; state?: unknown }): Again;

/** What a failure can have besides its message. */
export interface FailureOptions {
  /** Data for conditions and programs, as `error.details`: JSON of at most 16 KiB. */
  details?: unknown;
  /** A position in a text of the configuration. */
  position?: Position;
  /** The delay in milliseconds after which a retry makes sense. */
  afterMs?: number;
  cause?: unknown;
}

/** A failure with a class. Errors of the host are failures with a `code`. */
export class Failure extends Error {
  /** `invalid`, `retryable`, `permanent`, `cancelled` or `other`. */
  readonly class: "invalid" | "retryable" | "permanent" | "cancelled" | "other";
  /** The code of an error of the host, such as `http.denied`. */
  readonly code?: string;
  readonly details?: unknown;
  readonly position?: Position;
  readonly afterMs?: number;
}

/** Makes failures, to be thrown. Any other exception is a failure of the class `other`. */
export const failure: {
  /** The configuration or the input is wrong: a retry is useless. */
  invalid(message: string, options?: FailureOptions): Failure;
  /** A retry may succeed. */
  retryable(message: string, options?: FailureOptions): Failure;
  /** A retry cannot succeed. */
  permanent(message: string, options?: FailureOptions): Failure;
  /** The node noticed that it was cancelled. */
  cancelled(): Failure;
};

/** A value of another media type than JSON: `text` or `bytes` has the content. */
export class Raw {
  constructor(contentType: string, content: string | Uint8Array | ArrayBuffer);
  readonly contentType: string;
  readonly text?: string;
  readonly bytes?: Uint8Array;
}

/** A large value in the blob store of the host; `blobs` reads ranges of it. */
export class Blob {
  constructor(reference: string, contentType?: string);
  readonly reference: string;
  readonly contentType?: string;
}

/** The value at `input`, `vars.NAME` or `nodes.NAME.output`, or at a member of it. */
export function memory(path: string): any;

/** Large values, read in ranges and written in parts. */
export const blobs: {
  /** The length in bytes. */
  size(blob: Blob | string): number;
  /** At most `length` bytes from `offset`; fewer at the end. */
  read(blob: Blob | string, offset: number, length: number): Uint8Array;
  /** Writes a blob, which lives as long as the outcome of the call. */
  write(parts: Uint8Array | Iterable<Uint8Array>, contentType?: string): Blob;
};

/** Stimuli and triggers, which take effect with the commit of the call; the grant is `events`. */
export const events: {
  /** Sends a stimulus, which starts or resumes runs. */
  send(stimulus: { name: string; match?: unknown; correlation?: string; run?: string; input?: unknown }): void;
  /** Schedules an execution of a node of this run; the payload is assigned to `vars`. */
  schedule(trigger: { node: string; at: Date | number; payload?: object }): void;
};

/** Headers; names are compared without case. */
export class Headers {
  constructor(init?: Record<string, string | Secret> | Iterable<[string, string | Secret]>);
  append(name: string, value: string | Secret): void;
  set(name: string, value: string | Secret): void;
  get(name: string): string | null;
  has(name: string): boolean;
  delete(name: string): void;
  forEach(each: (value: string, name: string, headers: Headers) => void): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}

/** A reference to a secret, as the `with` of a node has it: the host inserts its value into a header. */
export interface Secret {
  /** The name in a workflow; in a call a handle that is valid in this call alone. */
  secret: string;
}

/** What a request can have besides its address. */
export interface RequestOptions {
  method?: string;
  headers?: Headers | Record<string, string | Secret> | Iterable<[string, string | Secret]>;
  body?: string | Uint8Array | ArrayBuffer | { toString(): string };
  /** The time limit of the whole request; the deadline of the call bounds it. */
  timeoutMs?: number;
  /** The largest response body. */
  maxResponseBytes?: number;
  /** The number of redirects to follow; default: 5. */
  maxRedirects?: number;
}

/** A response, with any status. */
export class Response {
  constructor(body?: string | Uint8Array, init?: { status?: number; headers?: Record<string, string>; url?: string });
  readonly status: number;
  /** Whether the status is 200 to 299. */
  readonly ok: boolean;
  readonly headers: Headers;
  readonly url: string;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/** Sends a request to a host that the operator granted; the global `fetch` is the same. */
export function fetch(url: string | { href: string }, options?: RequestOptions): Promise<Response>;

/** Writes a line with named values to the log of the run; `console` writes lines without. */
export function log(
  level: "trace" | "debug" | "info" | "warn" | "error",
  message: string,
  fields?: Record<string, unknown>,
): void;

/** The wall clock: milliseconds since 1970. `Date` is the same clock. */
export function nowMs(): number;

/** Milliseconds since a fixed moment before the call; never goes back within a call. */
export function monotonicMs(): number;

/** Unpredictable bytes, fit for keys. */
export function randomBytes(length: number): Uint8Array;

