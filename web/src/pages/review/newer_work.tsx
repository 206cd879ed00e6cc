// Says that the task has newer work than what is shown: before a verdict, and after a refused one.
import type { Problem } from "../../api/call";
import { pathText } from "../../text";
import { Trouble } from "../../ui/notes";

interface NewerProps {
  busy: boolean;
  onCompare: () => void;
  onShow: () => void;
}

export function Newer({ busy, onCompare, onShow }: NewerProps) {
  return (
    <div className="newer notice row wrap" role="status">
      <span className="grow">
        The task has a newer diff than the one that is shown. A verdict on this one is refused.
      </span>
      <button type="button" className="button" disabled={busy} onClick={onCompare}>
        Show what is new
      </button>
      <button type="button" className="button primary" disabled={busy} onClick={onShow}>
        Show the current diff
      </button>
    </div>
  );
}

interface RefusedProps extends NewerProps {
  problem: Problem;
}

/** Whether a verdict was refused because it was about other work. */
export const isAboutOtherWork = ({ code }: Problem) =>
  code === "diff_changed" || code === "version_conflict";

export function Refused({ problem, busy, onCompare, onShow }: RefusedProps) {
  const isDiff = problem.code === "diff_changed";
  if (!isAboutOtherWork(problem)) return <Trouble problem={problem} />;
  const files = Array.isArray(problem.details.files) ? problem.details.files.map(String) : [];
  return (
    <div className="trouble" role="alert">
      <p>
        <strong>The work has changed since you read it.</strong> The verdict was not recorded.
        {files.length > 0 && " These files differ from what is shown here:"}
      </p>
      {files.length > 0 && (
        <ul className="differing">
          {files.slice(0, MAX_NAMED).map((file) => (
            <li key={file}>
              <code>{pathText(file)}</code>
            </li>
          ))}
          {files.length > MAX_NAMED && <li>and {files.length - MAX_NAMED} more</li>}
        </ul>
      )}
      <div className="row wrap">
        {isDiff && (
          <button type="button" className="button" disabled={busy} onClick={onCompare}>
            Show what is new
          </button>
        )}
        <button type="button" className="button" disabled={busy} onClick={onShow}>
          {isDiff ? "Show the current diff" : "Show the current state"}
        </button>
      </div>
    </div>
  );
}

const MAX_NAMED = 10;
