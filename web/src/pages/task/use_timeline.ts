// The timeline of a task, read from its events.
import { useMemo } from "react";
import { useRead } from "../../api/hooks";
import { useTables } from "../../ui/tables";
import { timeline } from "./timeline";

export function useTimeline(taskId: string) {
  const tables = useTables();
  const events = useRead("task_events", { task_id: taskId });
  const drawn = useMemo(
    () => timeline(tables, taskId, events.data?.events ?? []),
    [tables, taskId, events.data],
  );
  return { events, drawn };
}
