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
  ["failed", { error_class: "error", error: "413" }, "Its state is failed: 413"],
  ["timed_out", {}, "Its state is timed out."],
  [
    "timer",
    { event: "task_cancelled" },
    "If nothing else happens, the event task_cancelled is sent.",
  ],
  ["wait:timer", { name: "night_window" }, "It sleeps: night window."],
  ["subtasks", { open: 1 }, "It waits for 1 subtask."],
  [
    "budget_exceeded",
    { error_class: "budget", error: "its costs exceed its budget", budget: 1, spent: 2 },
    "Its state is budget exceeded (budget): its costs exceed its budget",
  ],
  ["queued", { ahead: 2 }, "It waits for a free worker, behind 2 jobs."],
  [
    "limit",
    { limit: "intent:fix", max: 2, running: 2 },
    "The limit intent:fix is reached: at most 2 at a time.",
  ],
  [
    "rate",
    { limit: "intent:fix", max: 5, per_s: 60 },
    "The rate limit intent:fix is reached: at most 5 in 60 seconds.",
  ],
  [
    "cost_quota",
    { limit: "project:shop", max_usd: 20, spent_usd: 21.5 },
    "The cost quota of project:shop is used up: $21.50 of $20.00 is spent today.",
  ],
  [
    "memory_short",
    { intent: "fix", workers: ["a"] },
    "The machine of every worker that executes fix is short of memory.",
  ],
  [
    "paused",
    { limit: "intent:send_mail", paused_by: "night_shift", reason: "Maintenance" },
    "intent:send_mail is paused by night_shift: Maintenance",
  ],
  ["paused", { limit: "all", paused_by: "owner", reason: "" }, "all is paused by owner."],
  ["no_worker", { intent: "send_mail" }, "No running worker executes send_mail."],
  ["wait:permission", { text: "Delete it?" }, "It asks for permission: Delete it?"],
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
  expect(isWaiting([reason("cost_quota"), reason("memory_short")])).toBe(true);
  expect(isWaiting([reason("subtasks"), reason("failed_subtask")])).toBe(false);
  expect(isWaiting([reason("in_work")])).toBe(false);
  expect(urgencyOf(reason("failed"))).toBe("bad");
});
