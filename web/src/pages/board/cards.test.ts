import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Event } from "../../api/schema";
import { event, RELEASE, REVIEW } from "../../testing";
import { type Card, Cards } from "./cards";

const { call } = vi.hoisted(() => ({ call: vi.fn() }));
vi.mock("../../api/call", () => ({ call }));

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => vi.useRealTimers());

function created(id: string, fields: object = {}): Event {
  return event(id, "task_created", {
    lifecycle: "review",
    intent: "fix",
    source: "api",
    priority: "P2",
    title: "",
    tags: [],
    ...fields,
  });
}
const ids = (cards: Cards, state: string) =>
  (cards.look().get(state) ?? []).map((card: Card) => card.id);

function board(filter = {}): Cards {
  return new Cards(REVIEW, filter);
}

describe("cards", () => {
  test("appear, move and go by events alone", () => {
    const cards = board();
    cards.take([created("a"), created("b"), event("a", "task_queued")]);
    vi.advanceTimersByTime(200);
    expect([ids(cards, "pending"), ids(cards, "queued")]).toEqual([["b"], ["a"]]);
    cards.take([event("b", "task_deleted")]);
    vi.advanceTimersByTime(200);
    expect(ids(cards, "pending")).toEqual([]);
  });
  test("of another lifecycle or beside the filter stay away", () => {
    const cards = board({ tag: "x" });
    cards.take([
      created("a"),
      created("b", { tags: ["x"] }),
      created("c", { lifecycle: "board", tags: ["x"] }),
    ]);
    vi.advanceTimersByTime(200);
    expect(ids(cards, "pending")).toEqual(["b"]);
  });
  test("say why they are blocked", () => {
    const cards = board();
    cards.take([created("a"), event("a", "task_queued"), event("a", "task_started")]);
    cards.take([event("a", "task_blocked", { reason: "question" })]);
    vi.advanceTimersByTime(200);
    expect(cards.look().get("blocked")![0]!.note).toBe("question");
  });
  test("stand by priority, then by who waits longest; edits move them", () => {
    const cards = board();
    cards.take([created("a"), created("b", { priority: "P0" }), created("c")]);
    vi.advanceTimersByTime(200);
    expect(ids(cards, "pending")).toEqual(["b", "a", "c"]);
    cards.take([event("c", "task_edited", { changes: { priority: "P0", title: "New" } })]);
    vi.advanceTimersByTime(200);
    expect(ids(cards, "pending")).toEqual(["b", "c", "a"]);
  });
  test("of states with one column are in it together, whatever events move them", () => {
    const cards = new Cards(RELEASE, {});
    cards.take([
      created("a", { lifecycle: "release" }),
      created("b", { lifecycle: "release" }),
      created("c", { lifecycle: "release@2" }),
      event("a", "task_queued"),
      event("b", "task_queued"),
      event("b", "task_started"),
    ]);
    cards.flush();
    expect([ids(cards, "In work"), ids(cards, "draft")]).toEqual([["a", "b"], []]);
    cards.take([event("b", "task_ready"), event("b", "task_sent_back", { comment: "again" })]);
    cards.flush();
    expect(ids(cards, "In work")).toEqual(["a", "b"]);
    cards.take([event("b", "task_migrated", { lifecycle: "release@2", state: "queued" })]);
    cards.flush();
    expect(ids(cards, "In work")).toEqual(["a"]);
  });
  test("that are gone when everything is read again are removed, unless an event has changed them", async () => {
    call.mockResolvedValue({ items: [], cursor: null });
    const cards = board();
    cards.take([created("gone"), created("moved")]);
    const loaded = cards.load(new AbortController().signal);
    cards.take([event("moved", "task_queued"), created("new")]);
    await loaded;
    expect([ids(cards, "pending"), ids(cards, "queued")]).toEqual([["new"], ["moved"]]);
  });
  test("report one error if no page can be read", async () => {
    call.mockRejectedValue(new Error("The gateway does not answer."));
    const loaded = board().load(new AbortController().signal);
    await expect(loaded).rejects.toThrow("does not answer");
  });
  test("a column that nothing touched is the same object, so that it is not drawn again", () => {
    const cards = board();
    cards.take([created("a"), created("b"), event("b", "task_queued")]);
    vi.advanceTimersByTime(200);
    const before = cards.look().get("pending");
    cards.take([event("b", "task_started")]);
    vi.advanceTimersByTime(200);
    expect(cards.look().get("pending")).toBe(before);
  });
  test("ten thousand cards and two hundred events a second take little of a second", () => {
    const cards = board();
    cards.take(Array.from({ length: 10_000 }, (_, at) => created(`t${at}`)));
    cards.flush();
    const began = performance.now();
    for (let frame = 0; frame < 10; frame += 1) {
      cards.take(
        Array.from({ length: 20 }, (_, at) => event(`t${frame * 20 + at}`, "task_queued")),
      );
      cards.flush();
    }
    expect(performance.now() - began).toBeLessThan(500);
    expect(ids(cards, "queued").length).toBe(200);
  });
});
