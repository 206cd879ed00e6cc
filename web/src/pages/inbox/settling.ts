// Calls that settle an inbox item. The outcome is shown even if the item has left the page:
// the feed is often faster than the response.
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
