// The findings of a checker, which are untrusted, in a readable form.
import { plain, shown } from "../../text";

export interface Finding {
  text: string;
  /** Why a finding that names a file is no comment. */
  reason: string | null;
}

interface Note {
  finding: number;
  no_comment?: string;
}

/** The findings in a readable form: those that are comments are shown at their lines. */
export function findingsOf(result: unknown): Finding[] {
  const { findings, line_comments: notes } = (result ?? {}) as {
    findings?: unknown;
    line_comments?: unknown;
  };
  const all = Array.isArray(findings) ? findings : findings == null ? [] : [findings];
  const known = new Map(
    (Array.isArray(notes) ? (notes as Note[]) : []).map((note) => [note?.finding, note]),
  );
  return all.flatMap((finding, at) => {
    const note = known.get(at + 1);
    if (note && note.no_comment === undefined) return [];
    return [{ text: textOf(finding), reason: note?.no_comment ? plain(note.no_comment) : null }];
  });
}

/** The words for a criterion without a text. */
const VERDICTS = { true: "fulfilled", false: "not fulfilled" };

function textOf(finding: unknown): string {
  if (finding === null || typeof finding !== "object") return shown(finding);
  const { text, message, file, criterion, ok } = finding as Record<string, unknown>;
  const verdict = typeof ok === "boolean" && criterion != null ? VERDICTS[`${ok}`] : undefined;
  const found = text ?? message ?? verdict;
  if (typeof found !== "string") return shown(finding);
  const about = file ?? criterion;
  return typeof about === "string" ? `${about.replace(/[.:]$/, "")}: ${found}` : found;
}
