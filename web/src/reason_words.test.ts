import { expect, test } from "vitest";
import type { Reason } from "./api/schema";
import { isWaiting, sentence, urgencyOf } from "./reason_words";

function reason(name: string, detail: Record<string, unknown> = {}): Reason {
  return {
    reason: name,
    cleared_by: "",
    how: "",
    looks_again: "",
    looks_again_at: null,
    detail,
    actions: [],
  };
}

test.each([
  ["question", { text: "Which database?" }, "It asks: Which database?"],
  [
    "retry",
    { error_class: "network", error: "refused" },
    "An attempt failed and is retried (network): refused",
  ],
  ["failed", { error_class: "error", error: "413" }, "It is failed: 413"],
  ["timed_out", {}, "It is timed out."],
  ["wait:timer", { name: "night_window" }, "It sleeps: night window."],
  ["subtasks", { open: 1 }, "It waits for 1 subtask."],
  ["queued", { ahead: 2 }, "It waits for a free worker, behind 2 jobs."],
])("%s in words", (name, detail, words) => {
  expect(sentence(reason(name, detail))).toBe(words);
});

test("hostile text is shown as text, and a long message is cut", () => {
  expect(sentence(reason("question", { text: "a\u202eb" }))).toBe("It asks: a\ufffdb");
  expect(sentence(reason("error", { error: "x".repeat(1_000) })).length).toBeLessThan(300);
});

test("it waits by itself only if nothing works on it and no person is needed", () => {
  expect(isWaiting([])).toBe(false);
  expect(isWaiting([reason("wait:timer")])).toBe(true);
  expect(isWaiting([reason("subtasks"), reason("failed_subtask")])).toBe(false);
  expect(isWaiting([reason("in_work")])).toBe(false);
  expect(urgencyOf(reason("failed"))).toBe("bad");
});
