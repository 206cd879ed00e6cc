// Verbs that settle a matter. What came of one is said even when the matter has left the page by
// then: the feed is often quicker than the answer.
import type { Name, Problem } from "../../api/call";
import { useVerb } from "../../api/hooks";
import { plain } from "../../text";
import { say } from "../../ui/toast";
import { titleOf } from "./kinds";

export function useSettling<N extends Name>(
  name: N,
  word: string,
  what: { title: string; intent: string },
) {
  return useVerb(name, {
    onSuccess: () => say(`${word}: ${plain(titleOf(what))}`),
    onError: (problem: Problem) => say(plain(problem.message), { bad: true }),
  });
}
