import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { event } from "../testing";
import { Feed, type FeedEvent } from "./feed";
import { throttled } from "./throttle";

class Plug {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  closed = false;
  constructor(readonly path: string) {}
  close() {
    this.closed = true;
  }
  say(...messages: object[]) {
    this.onmessage?.({ data: JSON.stringify(messages) });
  }
}

let plugs: Plug[];
let feed: Feed;
const last = () => plugs.at(-1)!;

beforeEach(() => {
  vi.useFakeTimers();
  plugs = [];
  feed = new Feed((path) => {
    plugs.push(new Plug(path));
    return last() as never;
  });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function live(cursor = 7): void {
  feed.start();
  last().onopen?.();
  last().say({ type: "hello", cursor });
}

describe("the feed", () => {
  test("tells batches and keeps the cursor", () => {
    const heard: FeedEvent[][] = [];
    feed.subscribe((events) => heard.push(events));
    live();
    const one = event("t", "task_created");
    last().say(
      { type: "event", ...one },
      { type: "task_completed" },
      { type: "cursor", cursor: 9 },
    );
    expect(heard.map((events) => events.map((each) => each.name))).toEqual([["task_created"]]);
    last().onclose?.();
    vi.advanceTimersByTime(300);
    expect(last().path).toBe("/api/feed?cursor=9");
  });
  test("has one connection, however often it is tried again", () => {
    live();
    last().onclose?.();
    feed.retry();
    feed.retry();
    expect(plugs.map((plug) => plug.closed)).toEqual([true, true, false]);
  });
  test("moves the cursor after delivery: a batch that a listener refused is read again", () => {
    const reported = vi.fn();
    vi.stubGlobal("reportError", reported);
    const heard: number[] = [];
    let broken = true;
    feed.subscribe(() => {
      if (broken) throw new Error("not now");
    });
    feed.subscribe((events) => heard.push(events.length));
    live(7);
    last().say({ type: "event", ...event("t", "task_created") }, { type: "cursor", cursor: 9 });
    expect(heard).toEqual([1]);
    expect(reported).toHaveBeenCalledOnce();
    expect(feed.look().kind).toBe("lost");
    vi.advanceTimersByTime(300);
    expect(last().path).toBe("/api/feed?cursor=7");
    broken = false;
    last().say({ type: "hello", cursor: 7 });
    last().say({ type: "event", ...event("t", "task_created") }, { type: "cursor", cursor: 9 });
    expect(heard).toEqual([1, 1]);
    last().onclose?.();
    vi.advanceTimersByTime(300);
    expect(last().path).toBe("/api/feed?cursor=9");
  });
  test("a batch that always fails is skipped in the end, and everything is read again", () => {
    vi.stubGlobal("reportError", vi.fn());
    const gap = vi.fn();
    feed.onRegained = gap;
    feed.subscribe(() => {
      throw new Error("never");
    });
    live(7);
    for (let at = 0; at < 3; at += 1) {
      last().say({ type: "event", ...event("t", "task_created") }, { type: "cursor", cursor: 9 });
      vi.advanceTimersByTime(10_000);
      last().say({ type: "hello", cursor: 7 });
    }
    expect(last().path).toBe("/api/feed");
    expect(gap).toHaveBeenCalled();
  });
  test("says that it is lost, waits longer each time, and says that it is back", () => {
    live();
    const waits: number[] = [];
    for (let at = 0; at < 4; at += 1) {
      last().onclose?.();
      const status = feed.look();
      if (status.kind !== "lost") throw new Error(status.kind);
      waits.push(status.nextTry - Date.now());
      vi.advanceTimersByTime(waits.at(-1)!);
    }
    expect(waits).toEqual([300, 700, 1_500, 3_000]);
    last().say({ type: "hello", cursor: 12 });
    expect(feed.look()).toEqual({ kind: "live", regained: true });
  });
  test("a cursor that may be what is refused is forgotten, and everything is read again", () => {
    const gap = vi.fn();
    feed.onRegained = gap;
    live();
    for (let at = 0; at < 3; at += 1) {
      last().onclose?.();
      vi.advanceTimersByTime(10_000);
    }
    expect(last().path).toBe("/api/feed");
    last().say({ type: "hello", cursor: 2 });
    expect(gap).toHaveBeenCalledOnce();
  });
  test("everything is read again after a short loss: reads may have failed meanwhile", () => {
    const regained = vi.fn();
    feed.onRegained = regained;
    live();
    expect(regained).not.toHaveBeenCalled();
    last().onclose?.();
    vi.advanceTimersByTime(300);
    expect(last().path).toBe("/api/feed?cursor=7");
    last().say({ type: "hello", cursor: 7 });
    expect(regained).toHaveBeenCalledOnce();
  });
  test("silence for too long is a loss", () => {
    live();
    vi.advanceTimersByTime(39_000);
    last().say({ type: "cursor", cursor: 8 });
    vi.advanceTimersByTime(39_000);
    expect(feed.look().kind).toBe("live");
    vi.advanceTimersByTime(2_000);
    expect(feed.look().kind).toBe("lost");
    expect(plugs[0]!.closed).toBe(true);
  });
  test("try now tries now, once", () => {
    live();
    last().onclose?.();
    feed.retry();
    expect(plugs.length).toBe(2);
    vi.advanceTimersByTime(300);
    expect(plugs.length).toBe(2);
  });
  test("an end for lack of rights signs out", () => {
    const out = vi.fn();
    feed.onSignedOut = out;
    live();
    last().say({ type: "resync", cursor: 7, reason: "unauthorized" });
    expect(out).toHaveBeenCalledOnce();
  });
});

test("throttled calls immediately, then at most once per interval, and never loses the last call", () => {
  const act = vi.fn();
  const each = throttled(act, 100);
  each.call();
  vi.advanceTimersByTime(0);
  expect(act).toHaveBeenCalledTimes(1);
  each.call();
  each.call();
  vi.advanceTimersByTime(99);
  expect(act).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(1);
  expect(act).toHaveBeenCalledTimes(2);
});
