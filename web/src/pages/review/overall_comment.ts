// The comment on the work as a whole: this tab keeps it until a verdict is sent.
import { useCallback, useState } from "react";

const keyOf = (taskId: string) => `detent.review.comment.${taskId}`;

/** The text, and how to change it. */
export function useOverallComment(taskId: string): [string, (text: string) => void] {
  const [text, setText] = useState(() => sessionStorage.getItem(keyOf(taskId)) ?? "");
  const change = useCallback(
    (next: string) => {
      setText(next);
      if (next) sessionStorage.setItem(keyOf(taskId), next);
      else sessionStorage.removeItem(keyOf(taskId));
    },
    [taskId],
  );
  return [text, change];
}
