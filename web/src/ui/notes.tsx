// Placeholders of a page: empty, loading and error states.
import type { ReactNode } from "react";
import type { Problem } from "../api/call";
import { plain } from "../text";
import { CodeSpans } from "./code_spans";

const NOT_FOUND = 404;

export function Loading({ what }: { what: string }) {
  return (
    <p className="loading" role="status">
      Loading {what}…
    </p>
  );
}

/** Nothing is here, and what to do next. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** What went wrong, and what to do now. What does not exist is not read again. */
export function Trouble({ problem, again }: { problem: Problem; again?: () => unknown }) {
  return (
    <div className="trouble" role="alert">
      <p>
        <strong>
          <CodeSpans text={plain(problem.message)} />
        </strong>
      </p>
      {problem.hint && (
        <p>
          <CodeSpans text={plain(problem.hint)} />
        </p>
      )}
      {again && problem.status !== NOT_FOUND && (
        <button type="button" className="button" onClick={() => again()}>
          Try again
        </button>
      )}
    </div>
  );
}

export function Command({ children }: { children: string }) {
  return <code className="command">{children}</code>;
}
