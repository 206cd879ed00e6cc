// One variant in the comparison.
import type { ReactNode } from "react";
import type { Variant, VariantCheck, VariantDiff, VariantTests } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { bytes, dollars, plain, plural, words } from "../../text";
import { duration } from "../../time";
import { addressOf } from "../../ui/evidence";
import { StateMark } from "../../ui/state";

interface Props {
  variant: Variant;
  lifecycle: string;
  onChoose: () => void;
}

export function Column({ variant, lifecycle, onChoose }: Props) {
  const title = `variant-${variant.number}`;
  return (
    <li className="variant" aria-labelledby={title} data-chosen={variant.chosen || undefined}>
      <h2 id={title}>
        Variant {variant.number}
        {variant.chosen && <span className="faint"> (chosen)</span>}
      </h2>
      <p className="faint">{plain(variant.intent)}</p>
      <dl>
        <Fact name="State">
          <StateMark table={lifecycle} state={variant.state} />
          {variant.error && <span className="variant-error">{plain(variant.error)}</span>}
        </Fact>
        <Fact name="Changes">
          <Changes taskId={variant.task_id} diff={variant.diff} />
        </Fact>
        <Fact name="Tests">
          <Tests tests={variant.tests} />
        </Fact>
        <Fact name="Check">
          <Check check={variant.check} />
        </Fact>
        <Fact name="Cost">{dollars(variant.cost_usd)}</Fact>
        <Fact name="Tokens">
          {variant.tokens_in.toLocaleString("en")} in, {variant.tokens_out.toLocaleString("en")} out
        </Fact>
        <Fact name="Duration">{duration(variant.duration_ms)}</Fact>
      </dl>
      {variant.choosable ? (
        <button type="button" className="button primary" onClick={onChoose}>
          Choose variant {variant.number}
        </button>
      ) : (
        <Link to={linkTo.task(variant.task_id)}>Open its task</Link>
      )}
    </li>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function Changes({ taskId, diff }: { taskId: string; diff: VariantDiff | null }) {
  if (diff === null) return "none recorded";
  const size =
    diff.files === null
      ? bytes(diff.size)
      : `${plural(diff.files, "file")}, +${diff.added} −${diff.removed}`;
  return <Link to={linkTo.task(taskId, "review")}>{size}</Link>;
}

function Tests({ tests }: { tests: VariantTests }) {
  if (!tests.evidence.length) return "none recorded";
  const last = tests.evidence.at(-1);
  const counts = [
    tests.failed ? `${tests.failed} failed` : "",
    tests.passed === null ? "" : `${tests.passed} passed`,
  ].filter(Boolean);
  return (
    <>
      {counts.length > 0 && (
        <span className="state" data-look={tests.failed ? "bad" : "good"}>
          {counts.join(", ")}
        </span>
      )}{" "}
      {last && (
        <a href={addressOf(last)} download={last.file.split("/").at(-1)}>
          {plain(last.file)}
        </a>
      )}
    </>
  );
}

function Check({ check }: { check: VariantCheck | null }) {
  if (check === null) return "none";
  const verdict = { true: "accepts", false: "refuses", null: words(check.state) }[
    String(check.accept) as "true" | "false" | "null"
  ];
  const look = check.accept === null ? "waiting" : check.accept ? "good" : "bad";
  return (
    <>
      <span className="state" data-look={look}>
        {verdict}
      </span>{" "}
      <Link to={linkTo.task(check.task_id)}>{plain(check.checker)}</Link>
    </>
  );
}
