// Everything that waits for a person, oldest first, as the server's inbox has it.
import { useMemo } from "react";
import { useFresh, useRead } from "../../api/hooks";
import type { Task } from "../../api/schema";

/** How many failed jobs are looked at for what made them fail. */
const MOST_FAILED = 500;

export function useWaiting() {
  const inbox = useRead("inbox", {});
  useFresh(["inbox"], (event) => /^(task|budget)_/.test(event.name));
  const again = () => void inbox.refetch();
  return { items: inbox.data?.items, problem: inbox.error, again };
}

/** How the jobs of failed tasks ended, by task: a task itself only says that it failed. */
export function useFailures(items: readonly Task[]): ReadonlyMap<string, string> {
  const some = items.some((task) => task.state !== "ready" && task.blocked_by === null);
  const jobs = useRead(
    "list_jobs",
    { state: "failed", sort: "-state_at", limit: MOST_FAILED },
    { enabled: some },
  );
  useFresh(["list_jobs"], (event) => event.name === "job_failed");
  return useMemo(() => {
    const newestLast = [...(jobs.data?.items ?? [])].reverse();
    return new Map(newestLast.map((job) => [job.task_id ?? "", job.error_class ?? ""]));
  }, [jobs.data]);
}
