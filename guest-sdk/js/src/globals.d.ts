// The globals of a plugin beside the language: `"types": ["windlass/globals"]`.

import type {
  Headers as WindlassHeaders,
  RequestOptions,
  Response as WindlassResponse,
} from "./index.js";

declare global {
  /** Writes to the log of the run. */
  var console: {
    trace(...values: unknown[]): void;
    debug(...values: unknown[]): void;
    log(...values: unknown[]): void;
    info(...values: unknown[]): void;
    warn(...values: unknown[]): void;
    error(...values: unknown[]): void;
    assert(holds: unknown, ...values: unknown[]): void;
    dir(value: unknown): void;
  };
  var performance: { now(): number; timeOrigin: number };
  var crypto: {
    getRandomValues<T extends ArrayBufferView>(array: T): T;
    randomUUID(): string;
  };
  function fetch(url: string | URL, options?: RequestOptions): Promise<WindlassResponse>;
  var Headers: typeof WindlassHeaders;
  var Response: typeof WindlassResponse;
  function atob(text: string): string;
  function btoa(text: string): string;
  function queueMicrotask(job: () => void): void;
  function structuredClone<T>(value: T): T;

  class TextEncoder {
    readonly encoding: string;
    encode(text?: string): Uint8Array;
    encodeInto(text: string, into: Uint8Array): { read: number; written: number };
  }
  class TextDecoder {
    constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
    readonly encoding: string;
    decode(bytes?: Uint8Array | ArrayBuffer, options?: { stream?: boolean }): string;
  }
  class URLSearchParams {
    constructor(init?: string | Record<string, string> | Iterable<[string, string]>);
    append(name: string, value: string): void;
    delete(name: string): void;
    get(name: string): string | null;
    getAll(name: string): string[];
    has(name: string): boolean;
    set(name: string, value: string): void;
    sort(): void;
    forEach(each: (value: string, name: string) => void): void;
    keys(): IterableIterator<string>;
    values(): IterableIterator<string>;
    entries(): IterableIterator<[string, string]>;
    [Symbol.iterator](): IterableIterator<[string, string]>;
    toString(): string;
  }
  class URL {
    constructor(url: string | URL, base?: string | URL);
    hash: string;
    host: string;
    hostname: string;
    href: string;
    readonly origin: string;
    password: string;
    pathname: string;
    port: string;
    protocol: string;
    search: string;
    readonly searchParams: URLSearchParams;
    username: string;
    toString(): string;
    toJSON(): string;
  }
}
