// A run that a page follows: its data, its history, and the stream of its events.

import { address, get } from "./api.js";
import { History } from "./history.js";

/** The shortest time between two reads of the pending work, in milliseconds. */
const AGAIN_MS = 800;

/** The time between two looks whether a run that has ended goes on, in milliseconds. */
const ENDED_MS = 10_000;

/** The longest time between two attempts to connect, in milliseconds. */
const PATIENCE_MS = 10_000;

export class LiveRun {
  /** @param {string} id */
  constructor(id) {
    this.id = id;
    /** The run as the API shows it. @type {any} */
    this.shown = null;
    /** The file of its workflow. @type {any} */
    this.file = null;
    /** Why the file cannot be had. @type {any} */
    this.fileError = null;
    this.history = new History();
    /** @type {import("./history.js").Trigger[]} */
    this.triggers = [];
    /** @type {any[]} */
    this.bookmarks = [];
    /** Nodes that this host has begun and whose execution is not over. @type {Map<string, number>} */
    this.begun = new Map();
    /** @type {any} */
    this.error = null;
    /** When the stream was lost; null: it is not. @type {number | null} */
    this.staleSince = null;
    /** Whether the whole history is here. */
    this.isWhole = false;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.changes = 0;
    this.#abort = new AbortController();
    /** @type {EventSource | null} */
    this.#stream = null;
    this.#pause = 1000;
    document.addEventListener("visibilitychange", this.#seen);
    this.#begin();
  }

  /** @type {AbortController} */
  #abort;
  /** @type {EventSource | null} */
  #stream;
  #pause;
  #timer = 0;
  #looking = false;
  #lookAgain = false;
  #looked = 0;
  #frame = 0;

  get status() {
    return this.shown?.run.status ?? "pending";
  }

  get isFinal() {
    return ["completed", "faulted", "cancelled"].includes(this.status);
  }

  /** Ends all that this object does. */
  close() {
    this.#abort.abort();
    this.#stream?.close();
    clearTimeout(this.#timer);
    clearTimeout(this.#endedTimer);
    cancelAnimationFrame(this.#frame);
    document.removeEventListener("visibilitychange", this.#seen);
  }

  /** Tells the page of changes, once a frame. */
  #tell() {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.changes += 1;
      for (const call of this.listeners) call();
    });
  }

  async #begin() {
    await this.look();
    if (this.error) {
      if (this.error.status === 0 || this.error.status >= 500) this.#later(() => this.#begin());
      return;
    }
    this.#definition();
    this.#follow();
    await this.#pages();
  }

  /** @param {() => void} call */
  #later(call) {
    if (this.#abort.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(call, this.#pause);
    this.#pause = Math.min(this.#pause * 2, PATIENCE_MS);
  }

  async #definition() {
    try {
      const answer = await get(`api/v1/runs/${this.id}/definition`, {}, this.#abort.signal);
      this.file = answer.file;
    } catch (error) {
      this.fileError = error;
    }
    this.#tell();
  }

  /** Reads the run with its data and its pending work. */
  async look() {
    if (this.#looking) {
      this.#lookAgain = true;
      return;
    }
    this.#looking = true;
    const signal = this.#abort.signal;
    try {
      const shown = await get(`api/v1/runs/${this.id}`, {}, signal);
      const waits = ["completed", "faulted", "cancelled"].includes(shown.run.status)
        ? { items: [] }
        : await get("api/v1/bookmarks", { run: this.id, links: true, limit: 50 }, signal);
      this.shown = shown;
      this.triggers = shown.triggers;
      this.bookmarks = waits.items;
      if (this.isFinal) {
        this.begun.clear();
        this.#watch();
      }
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      this.error = error;
    }
    this.#looked = Date.now();
    this.#looking = false;
    this.#tell();
    if (this.#lookAgain) {
      this.#lookAgain = false;
      this.#soon();
    }
  }

  #endedTimer = 0;

  /** Looks now and then whether a run that has ended goes on: a retry may come from elsewhere. */
  #watch() {
    clearTimeout(this.#endedTimer);
    this.#endedTimer = setTimeout(async () => {
      // A page that is seen again looks by itself.
      if (document.hidden || this.#abort.signal.aborted || !this.isFinal) return;
      const page = await get("api/v1/runs", { id: this.id, limit: 1 }, this.#abort.signal).catch(() => null);
      const now = page?.items[0];
      const before = this.shown.run;
      if (now && (now.status !== before.status || now.finished !== before.finished)) await this.again();
      else if (!this.#abort.signal.aborted) this.#watch();
    }, ENDED_MS);
  }

  #soonTimer = 0;

  /** Reads the run again, but not more often than {@link AGAIN_MS}. */
  #soon() {
    if (this.#soonTimer !== 0) return;
    const wait = Math.max(0, this.#looked + AGAIN_MS - Date.now());
    this.#soonTimer = setTimeout(() => {
      this.#soonTimer = 0;
      if (!this.#abort.signal.aborted) this.look();
    }, wait);
  }

  /** Reads the history, page by page, the newest first. */
  async #pages() {
    let cursor;
    try {
      do {
        const query = { limit: 500, brief: true, cursor };
        const page = await get(`api/v1/runs/${this.id}/executions`, query, this.#abort.signal);
        this.history.add(page.items);
        cursor = page.next;
        this.#tell();
      } while (cursor && !this.history.isFull);
      this.isWhole = true;
    } catch (error) {
      if (this.#abort.signal.aborted) return;
      this.#later(() => this.#pages());
    }
    this.#tell();
  }

  #seen = () => {
    if (document.hidden) {
      // A browser has few connections for a host, so a hidden page uses none.
      this.#stream?.close();
      this.#stream = null;
    } else if (this.#stream === null && this.shown) {
      this.look();
      this.#follow();
    }
  };

  #follow() {
    if (this.#abort.signal.aborted || this.isFinal || document.hidden) return;
    this.#stream?.close();
    const stream = new EventSource(address(`api/v1/runs/${this.id}/events`));
    this.#stream = stream;
    const on = (/** @type {string} */ name, /** @type {(data: any, id: string) => void} */ call) =>
      stream.addEventListener(name, (event) => {
        const message = /** @type {MessageEvent} */ (event);
        call(JSON.parse(message.data), message.lastEventId);
        this.#tell();
      });
    stream.onopen = () => {
      this.#pause = 1000;
      if (this.staleSince !== null) this.look();
      this.staleSince = null;
      this.#tell();
    };
    stream.onerror = () => {
      if (this.staleSince === null) this.staleSince = Date.now();
      // A browser connects again by itself, but not after an answer with an error.
      if (stream.readyState === EventSource.CLOSED) {
        this.#later(async () => {
          await this.look();
          this.#follow();
        });
      }
      this.#tell();
    };
    on("node", (data, id) => {
      this.begun.delete(data.node);
      this.history.add([{ ...data, no: data.no ?? id }]);
      this.#soon();
    });
    on("started", (data) => this.begun.set(data.node, Date.now()));
    on("status", (data) => {
      if (this.shown) this.shown = { ...this.shown, run: { ...this.shown.run, status: data.status } };
      this.#soon();
    });
    on("gap", () => this.#pages());
    on("end", () => {
      stream.close();
      this.begun.clear();
      this.look();
    });
  }

  /** Follows the run again, after it was made to continue, perhaps by another version. */
  async again() {
    await this.look();
    if (!this.isFinal) this.#follow();
    await Promise.all([this.#definition(), this.#pages()]);
  }
}
