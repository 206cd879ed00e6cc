// The variants of a task side by side: state, diff, tests, cost and check, and the choice of one.
import "../../styles/variants.css";
import { useState } from "react";
import { call, type Problem } from "../../api/call";
import { client, useFresh, useRead } from "../../api/hooks";
import type { Variant, Variants } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { dollars, plural, words } from "../../text";
import { Dialog } from "../../ui/dialog";
import { type KeyHelp, useKeys } from "../../ui/keys";
import { Loading, Trouble } from "../../ui/notes";
import { StateMark } from "../../ui/state";
import { Title } from "../../ui/title";
import { say } from "../../ui/toast";
import { Column } from "./column";

const READS = ["variants", "show_task"] as const;
const KEYS: KeyHelp = [["1 – 9", "choose this variant"]];

export default function VariantsPage({ id }: { id: string }) {
  const found = useRead("variants", { task_id: id });
  const ids = [id, ...(found.data?.variants ?? []).map((each) => each.task_id)];
  const concerns = (stream: string) => ids.some((each) => stream.startsWith(each));
  useFresh(READS, (event) => concerns(event.stream), 400);
  if (found.error && !found.data) {
    return (
      <>
        <Title>Compare variants</Title>
        <Trouble problem={found.error} again={found.refetch} />
        <p>
          <Link to={linkTo.task(id)}>Open the task</Link>
        </p>
      </>
    );
  }
  if (!found.data || found.data.task_id !== id) return <Loading what="the variants" />;
  return <Compared variants={found.data} />;
}

function Compared({ variants }: { variants: Variants }) {
  const [choosing, setChoosing] = useState<Variant | null>(null);
  const byKey = (variant: Variant) => [String(variant.number), () => setChoosing(variant)] as const;
  const choosable = variants.variants.filter((each) => each.choosable);
  useKeys(Object.fromEntries(choosable.map(byKey)), KEYS);
  return (
    <div className="variants-page">
      <header>
        <div className="title-row">
          <Title tab={`Compare: ${variants.title}`}>{variants.title || "Compare variants"}</Title>
          <Link to={linkTo.task(variants.task_id)}>Open the task</Link>
        </div>
        <p className="facts-line">
          <StateMark table={variants.lifecycle} state={variants.state} />
          <span>{plural(variants.variants.length, "variant")}</span>
          <span>
            {dollars(variants.cost_usd)}
            {variants.budget_usd !== null && ` of ${dollars(variants.budget_usd)}`}
          </span>
          <span>{CHOOSERS[variants.choose]}</span>
        </p>
      </header>
      <Status variants={variants} />
      <ul className="variants" aria-label="Variants">
        {variants.variants.map((each) => (
          <Column
            key={each.task_id}
            variant={each}
            lifecycle={variants.lifecycle}
            onChoose={() => setChoosing(each)}
          />
        ))}
      </ul>
      {choosable.length > 0 && (
        <ul className="hints" aria-label="Keys">
          <li>
            {choosable.map((each) => (
              <kbd key={each.number}>{each.number}</kbd>
            ))}{" "}
            choose a variant
          </li>
        </ul>
      )}
      {choosing && (
        <Choice
          key={choosing.task_id}
          variants={variants}
          variant={choosing}
          onClose={() => setChoosing(null)}
        />
      )}
    </div>
  );
}

const CHOOSERS: Record<Variants["choose"], string> = {
  person: "a person chooses",
  first_passing: "the first that passes is chosen",
  cheapest_passing: "the cheapest that passes is chosen",
};

/** What the task waits for, or which variant was chosen. */
function Status({ variants }: { variants: Variants }) {
  const live = variants.variants.filter((each) => each.live).length;
  if (variants.chosen !== null) {
    return (
      <p className="notice" role="status">
        Variant {variants.chosen} was chosen.{" "}
        {live > 0 && `${plural(live, "variant")} must stop first. `}
        <Link to={linkTo.task(variants.task_id, "review")}>Review the task</Link>
      </p>
    );
  }
  if (variants.variants.length === 0) {
    return (
      <p className="notice" role="status">
        {variants.wanted
          ? "The variants are created when a worker starts the task."
          : "This task has no variants."}
      </p>
    );
  }
  if (live > 0) {
    return (
      <p className="notice" role="status">
        {plural(live, "variant has", "variants have")} not ended. If you choose one that has
        completed, the others are cancelled.
      </p>
    );
  }
  return variants.waits_for_choice ? (
    <p className="notice" role="status">
      All variants have ended. Choose one: the task continues with its work.
    </p>
  ) : (
    <p className="notice" role="status">
      No variant was chosen. The task is {words(variants.state)}.
    </p>
  );
}

interface ChoiceProps {
  variants: Variants;
  variant: Variant;
  onClose: () => void;
}

/** The confirmation of a choice, which is final. */
function Choice({ variants, variant, onClose }: ChoiceProps) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const others = variants.variants.filter((each) => each.live && each !== variant).length;
  const choose = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const diff = variant.diff ? { diff: variant.diff.sha256 } : {};
      await call("choose_variant", {
        task_id: variants.task_id,
        variant: variant.number,
        ...diff,
      });
      say(`Variant ${variant.number} was chosen.`);
      onClose();
    } catch (refused) {
      setProblem(refused as Problem);
    }
    setBusy(false);
    await client.invalidateQueries();
  };
  return (
    <Dialog
      title={`Choose variant ${variant.number}?`}
      action={`Choose variant ${variant.number}`}
      enterConfirms
      busy={busy}
      onDo={choose}
      onClose={onClose}
    >
      {problem && <Trouble problem={problem} />}
      <p>
        The task continues with the work of variant {variant.number}: you review it next. The choice
        is final.
        {others > 0 &&
          ` ${plural(others, "other variant that still runs is", "other variants that still run are")} cancelled.`}
      </p>
      {variant.passes === false && (
        <p className="faint">This variant does not pass: see its tests and its check.</p>
      )}
    </Dialog>
  );
}
