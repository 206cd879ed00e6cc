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

/** Follows the log. Listeners get batches of events; `onGap` is called if some may be missing. */
export class Feed {
  private plug: Plug | undefined;
  private cursor: number | undefined;
  private failures = 0;
  private lostAt = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private watchdog: ReturnType<typeof setTimeout> | undefined;
  private status: Status = { kind: "off" };
  private readonly listeners = new Set<(events: FeedEvent[]) => void>();
  private readonly watchers = new Set<() => void>();
  onGap: () => void = () => {};
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
    this.say({ kind: "off" });
  }

  /** Connect now instead of waiting. */
  readonly retry = (): void => {
    if (this.status.kind !== "lost") return;
    clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
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
    const events: FeedEvent[] = [];
    for (const message of messages) {
      if (message.type === "event") events.push(message as FeedEvent);
      else if (message.type === "hello") this.greet();
      else if (message.type === "resync") this.resync(message.reason);
      if (message.cursor !== undefined) this.cursor = message.cursor;
    }
    if (events.length) for (const listener of this.listeners) listener(events);
  }

  private greet(): void {
    const regained = this.lostAt > 0;
    // Without a cursor the server cannot tell what was missed.
    if (regained && this.cursor === undefined) this.onGap();
    this.failures = 0;
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
