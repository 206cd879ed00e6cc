// Why a task or a job is not running: each reason, who can resolve it and how, and the next check.
import type { Reason } from "../api/schema";
import { plain, shown, words } from "../text";
import { When } from "./when";

export function Reasons({ reasons }: { reasons: readonly Reason[] }) {
  return (
    <ul className="whys">
      {reasons.map((reason) => (
        <li key={`${reason.reason} ${reason.detail.task ?? ""}`}>
          <p className="why-reason">{words(plain(reason.reason))}</p>
          <dl className="facts">
            <div>
              <dt>resolved by</dt>
              <dd>{plain(reason.cleared_by)}</dd>
            </div>
            <div>
              <dt>how</dt>
              <dd>{plain(reason.how)}</dd>
            </div>
            <div>
              <dt>next check</dt>
              <dd>
                {plain(reason.looks_again)}
                {reason.looks_again_at && (
                  <>
                    , <When at={reason.looks_again_at} />
                  </>
                )}
              </dd>
            </div>
            {details(reason).map(([name, value]) => (
              <div key={name}>
                <dt>{words(name)}</dt>
                <dd>{name === "providers" ? providers(value) : shown(value)}</dd>
              </div>
            ))}
          </dl>
        </li>
      ))}
    </ul>
  );
}

interface WaitingProvider {
  name: string;
  state: string;
  until?: string;
}

/** The providers that the work may use, each with its state. */
function providers(value: unknown) {
  return (value as WaitingProvider[]).map((each, at) => (
    <span key={each.name}>
      {at > 0 && ", "}
      {plain(each.name)} ({words(plain(each.state))}
      {each.until && (
        <>
          , <When at={each.until} />
        </>
      )}
      )
    </span>
  ));
}

/** The details that are set; times are shown elsewhere. */
function details(reason: Reason): [string, unknown][] {
  return Object.entries(reason.detail).filter(
    ([name, value]) =>
      value != null && !(Array.isArray(value) && value.length === 0) && !name.endsWith("_at"),
  );
}
