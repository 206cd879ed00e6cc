// Why something is not moving: each reason, who can clear it and how, and when it is looked at again.
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
              <dt>who can change that</dt>
              <dd>{plain(reason.cleared_by)}</dd>
            </div>
            <div>
              <dt>how</dt>
              <dd>{plain(reason.how)}</dd>
            </div>
            <div>
              <dt>looked at again</dt>
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
                <dd>{shown(value)}</dd>
              </div>
            ))}
          </dl>
        </li>
      ))}
    </ul>
  );
}

function details(reason: Reason): [string, unknown][] {
  return Object.entries(reason.detail).filter(
    ([name, value]) => value != null && !name.endsWith("_at"),
  );
}
