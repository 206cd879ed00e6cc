// Everything that waits for a person, oldest first, as the server's inbox has it.
import { useMemo } from "react";
import { useFresh, useRead } from "../../api/hooks";
import { useTables } from "../../ui/tables";
import { waitingIn } from "./kinds";

export function useWaiting() {
  const tables = useTables();
  // No event announces a submission that was refused.
  const inbox = useRead("inbox", {}, { everyMs: 10_000 });
  // What a job alone asks begins and ends with its wait, or with the job.
  useFresh(["inbox"], (event) =>
    /^(task|subtask|budget|wait)_|^job_(cancelled|failed)$/.test(event.name),
  );
  const again = () => void inbox.refetch();
  const items = useMemo(() => inbox.data && waitingIn(tables, inbox.data), [tables, inbox.data]);
  return { items, problem: inbox.error, again };
}
