// Comments whose lines the diff no longer has, each with the lines that it was written for.
import { plural } from "../../text";
import { DraftBox } from "./draft_box";
import type { Grouped } from "./notes_of_file";
import { Thread } from "./thread";

export function Outdated({ notes }: { notes: Grouped }) {
  const { outdated, outdatedDrafts } = notes;
  const count = outdated.length + outdatedDrafts.length;
  if (!count) return null;
  const open = outdated.filter((comment) => comment.state === "open").length;
  return (
    <details className="outdated" open={open + outdatedDrafts.length > 0}>
      <summary>
        {plural(count, "outdated comment")}
        {open > 0 && <span className="faint"> ({open} open)</span>}
      </summary>
      {outdated.map((comment) => (
        <Thread key={comment.id} comment={comment} quoted />
      ))}
      {outdatedDrafts.map((draft) => (
        <DraftBox key={draft.id} draft={draft} />
      ))}
    </details>
  );
}
