import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Problem } from "../../api/call";
import { Decisions, UNDO_MS } from "./decisions";

const refresh = vi.fn(async () => undefined);
let decisions: Decisions;

beforeEach(() => {
  vi.useFakeTimers();
  refresh.mockClear();
  decisions = new Decisions(refresh);
});
afterEach(() => vi.useRealTimers());

const never = (problem: Problem) => {
  throw problem;
};

describe("decisions", () => {
  test("one is sent when the time for an undo is over, and hidden until the inbox is read", async () => {
    const send = vi.fn(async () => undefined);
    decisions.decide("a", send, never);
    expect(decisions.look().hidden).toEqual(new Set(["a"]));
    await vi.advanceTimersByTimeAsync(UNDO_MS - 1);
    expect(send).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(1);
    expect(send).toHaveBeenCalledExactlyOnceWith(false);
    expect(refresh).toHaveBeenCalledOnce();
    expect(decisions.look().hidden).toEqual(new Set());
  });
  test("one that is undone is never sent", async () => {
    const send = vi.fn(async () => undefined);
    decisions.decide("a", send, never);
    expect(decisions.undo("a")).toBe(true);
    await vi.advanceTimersByTimeAsync(2 * UNDO_MS);
    await decisions.flush();
    expect(send).not.toHaveBeenCalled();
    expect(decisions.look().hidden).toEqual(new Set());
    expect(decisions.undo("a")).toBe(false);
  });
  test("each is undone by itself; the last is the newest that was not sent", async () => {
    const sent: string[] = [];
    for (const id of ["a", "b"]) decisions.decide(id, async () => sent.push(id), never);
    expect(decisions.last()).toBe("b");
    decisions.undo("b");
    expect(decisions.last()).toBe("a");
    await vi.advanceTimersByTimeAsync(UNDO_MS);
    expect(sent).toEqual(["a"]);
    expect(decisions.last()).toBe(null);
  });
  test("all are sent once when the page is left, with requests that outlive it", async () => {
    const send = vi.fn(async () => undefined);
    decisions.decide("a", send, never);
    decisions.decide("b", send, never);
    await decisions.flush();
    await vi.advanceTimersByTimeAsync(UNDO_MS);
    expect(send.mock.calls).toEqual([[true], [true]]);
  });
  test("a refused one comes back with its problem, which the next decision removes", async () => {
    const refused = new Problem(409, "version_conflict", "It has changed.", "");
    const report = vi.fn();
    decisions.decide("a", () => Promise.reject(refused), report);
    await vi.advanceTimersByTimeAsync(UNDO_MS);
    expect(report).toHaveBeenCalledExactlyOnceWith(refused);
    expect(decisions.look()).toEqual({ hidden: new Set(), problems: new Map([["a", refused]]) });
    decisions.decide("a", async () => undefined, never);
    expect(decisions.look().problems.size).toBe(0);
  });
});
