// What came out of a task: the error or the result of its last job, and the evidence of its runs.
import { useRead } from "../../api/hooks";
import type { Task } from "../../api/schema";
import { plain } from "../../text";
import { ErrorText } from "../../ui/error_text";
import { Evidence } from "../../ui/evidence";
import { Value } from "../../ui/value";
import { summaryOf } from "../inbox/review";

export function Outcome({ task }: { task: Task }) {
  const jobs = useRead("task_jobs", { task_id: task.id });
  const evidence = useRead("task_evidence", { task_id: task.id });
  const job = jobs.data?.items.findLast((each) => each.result != null || each.error);
  const files = evidence.data?.items ?? [];
  if (!job && !files.length) return null;
  return (
    <section aria-labelledby="outcome-title">
      <h2 id="outcome-title">Outcome</h2>
      {job?.error && <ErrorText error={job.error} errorClass={job.error_class} heading="h3" />}
      {job?.result != null && <Result value={job.result} />}
      {files.length > 0 && (
        <>
          <h3>Evidence</h3>
          <Evidence items={files} />
        </>
      )}
    </section>
  );
}

/** The words of a result; the rest of it is opened by the reader. */
function Result({ value }: { value: unknown }) {
  const summary = summaryOf(value);
  if (!summary) {
    return (
      <>
        <h3>Result</h3>
        <Value value={value} />
      </>
    );
  }
  return (
    <>
      <h3>Result</h3>
      <p className="prose">{plain(summary)}</p>
      {typeof value !== "string" && (
        <details>
          <summary>The whole result</summary>
          <Value value={value} />
        </details>
      )}
    </>
  );
}
