// The live feed: one WebSocket for the whole page, which reconnects and continues at its cursor.
import type { Event } from "../api/schema";

export type FeedEvent = Event;
type Message = Partial<Event> & { type: string; cursor?: number; reason?: string };

export type Status =
  | { kind: "off" }
  | { kind: "connecting" }
  | { kind: "live"; regained: boolean }
  | { kind: "lost"; since: number; nextTry: number };

/** Waits between attempts, in ms; the last one repeats. */
const WAITS = [300, 700, 1_500, 3_000, 6_000, 10_000];
/** A healthy connection gives a sign of life every 15 s. */
const SILENCE_MS = 40_000;
/** After this many failures in a row the cursor itself may be what is refused. */
const FORGET_AFTER = 3;

interface Plug {
  send?: unknown;
  close(): void;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
}
export type Opener = (path: string) => Plug;

const overSocket: Opener = (path) =>
  new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`);

/**
 * Follows the log. Listeners get batches of events; `onRegained` is called when a lost
 * connection is back: reads may have failed meanwhile, or events may be missing.
 *
 * The cursor moves only after every listener has got the batch. If one of them throws, the
 * connection is opened again from the last cursor, so that the server sends the batch again.
 */
export class Feed {
  private plug: Plug | undefined;
  private cursor: number | undefined;
  private failures = 0;
  /** Whether the last batch was not delivered to every listener. */
  private undelivered = false;
  private lostAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private status: Status = { kind: "off" };
  private readonly listeners = new Set<(events: FeedEvent[]) => void>();
  private readonly watchers = new Set<() => void>();
  onRegained: () => void = () => {};
  onSignedOut: () => void = () => {};

  constructor(private readonly open: Opener = overSocket) {}

  readonly subscribe = (listener: (events: FeedEvent[]) => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly look = (): Status => this.status;

  start(): void {
    if (this.status.kind !== "off") return;
    this.say({ kind: "connecting" });
    this.connect();
  }

  stop(): void {
    this.leave();
    this.cursor = undefined;
    this.failures = 0;
    this.undelivered = false;
    this.say({ kind: "off" });
  }

  /** Connect now instead of waiting. */
  readonly retry = (): void => {
    if (this.status.kind !== "lost") return;
    clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
    this.leave(); // a second attempt leaves no other connection behind
    const query = this.cursor === undefined ? "" : `?cursor=${this.cursor}`;
    const plug = this.open(`/api/feed${query}`);
    this.plug = plug;
    plug.onopen = () => this.alive();
    plug.onmessage = (event: { data: string }) => this.hear(JSON.parse(event.data));
    plug.onclose = () => {
      if (this.plug === plug) this.lose();
    };
  }

  private leave(): void {
    clearTimeout(this.timer);
    clearTimeout(this.watchdog);
    const plug = this.plug;
    this.plug = undefined;
    plug?.close();
  }

  private alive(): void {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.lose(), SILENCE_MS);
  }

  private hear(messages: Message[]): void {
    this.alive();
    for (const message of messages) {
      if (message.type === "hello") this.greet();
      else if (message.type === "resync") this.resync(message.reason);
    }
    const events = messages.filter((message) => message.type === "event") as FeedEvent[];
    if (events.length && !this.deliver(events)) return;
    for (const message of messages) {
      if (message.cursor !== undefined) this.cursor = message.cursor;
    }
  }

  /** Hand a batch to every listener; whether all have taken it. If not, it is read again. */
  private deliver(events: FeedEvent[]): boolean {
    this.undelivered = false;
    for (const listener of this.listeners) {
      try {
        listener(events);
      } catch (error) {
        reportError(error);
        this.undelivered = true;
      }
    }
    if (this.undelivered) this.lose();
    else this.failures = 0;
    return !this.undelivered;
  }

  private greet(): void {
    const regained = this.lostAt > 0;
    if (regained) this.onRegained();
    // A batch that fails again and again is a failure, although the connection can be opened.
    if (!this.undelivered) this.failures = 0;
    this.lostAt = 0;
    this.say({ kind: "live", regained });
  }

  private resync(reason: string | undefined): void {
    if (reason === "unauthorized") this.onSignedOut();
  }

  private lose(): void {
    this.leave();
    this.lostAt ||= Date.now();
    this.failures += 1;
    if (this.failures >= FORGET_AFTER) this.cursor = undefined;
    const wait = WAITS[Math.min(this.failures, WAITS.length) - 1]!;
    this.say({ kind: "lost", since: this.lostAt, nextTry: Date.now() + wait });
    this.timer = setTimeout(() => this.connect(), wait);
  }

  private say(status: Status): void {
    this.status = status;
    for (const watcher of this.watchers) watcher();
  }
}

export const feed = new Feed();
