// What the checker has found about the work under review. Its findings are untrusted.
import type { Check } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { plain, words } from "../../text";
import { findingsOf } from "./findings";
import { Prose } from "./prose";

export function CheckCard({ check }: { check: Check }) {
  const found = findingsOf(check.result);
  return (
    <details className="asked-for" open>
      <summary>{`Checker ${plain(check.checker)}: ${verdictOf(check)}`}</summary>
      {found.length > 0 && (
        <ul className="criteria">
          {found.map((each, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: findings have no other name
            <li key={at}>
              <Prose text={each.text} />
              {each.reason && <p className="faint">Not shown as a comment: {each.reason}</p>}
            </li>
          ))}
        </ul>
      )}
      <p>
        <Link to={linkTo.task(check.task_id)}>Open the check</Link>
      </p>
    </details>
  );
}

function verdictOf(check: Check): string {
  if (check.accept === null) return words(check.state);
  return check.accept ? "accepts the work" : "does not accept the work";
}
