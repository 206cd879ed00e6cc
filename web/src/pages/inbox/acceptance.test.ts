import { expect, test } from "vitest";
import { acceptanceWords } from "./acceptance";

test("how an acceptance with an action goes and went", () => {
  const merge = { action: "merge", by: "ann", job_id: "j", problem: null };
  const commit = "0123456789abcdef";
  const words = [
    { ...merge, state: "running", branch: null, commit: null },
    { ...merge, state: "failed", branch: null, commit: null },
    { ...merge, state: "completed", problem: "conflicts", branch: null, commit: null },
    { ...merge, state: "completed", branch: "main", commit },
    { ...merge, action: "push", state: "completed", branch: "topic", commit },
  ].map(acceptanceWords);
  expect(words).toEqual([
    "The work is being merged.",
    "The work was not merged.",
    "The work was not merged.",
    "Accepted and merged into main: 0123456789.",
    "Accepted and pushed as topic: 0123456789.",
  ]);
});
