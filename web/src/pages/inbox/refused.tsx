// A submission that another program left in its own transaction and that was refused.
import type { RefusedRow } from "../../api/schema";
import { plain } from "../../text";
import { useDecision } from "./settling";

export function Refused({ row }: { row: RefusedRow }) {
  const named = { id: `intake:${row.id}`, title: row.intent, intent: row.operation };
  const drop = useDecision("drop_refused", "Discarded", named);
  return (
    <>
      <p className="asked">{plain(row.detail)}</p>
      <p className="faint">
        Another program inserted this submission in its own transaction. It was refused: no task was
        created. Correct the program, submit it again, and discard this row.
      </p>
      <div className="row wrap">
        <button
          type="button"
          className="button danger"
          data-key="main"
          onClick={() => drop({ intake_id: row.id })}
        >
          Discard
        </button>
      </div>
      <h3>Inserted row</h3>
      <pre className="block">{plain(row.body)}</pre>
    </>
  );
}
