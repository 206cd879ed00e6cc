// One item of the inbox: what is needed, its background, and the controls that settle it.
import type { MouseEvent } from "react";
import type { InboxTask } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { plain } from "../../text";
import { Trouble } from "../../ui/notes";
import { StateMark } from "../../ui/state";
import { When } from "../../ui/when";
import { Budget } from "./budget";
import { Failure } from "./failure";
import { Handling } from "./handling";
import { KIND_WORDS, type Kind, type Waiting } from "./kinds";
import { JobAsks, TaskAsks } from "./question";
import { Refused } from "./refused";
import { Review } from "./review";
import { useDecisions } from "./settling";

const BODIES: Record<
  Exclude<Kind, "refused">,
  (props: { task: InboxTask; kind: Kind }) => React.ReactNode
> = {
  question: TaskAsks,
  confirmation: TaskAsks,
  review: Review,
  budget: Budget,
  failure: Failure,
  quarantine: Failure,
  subtask: Failure,
};

interface Props {
  waiting: Waiting;
  /** The people to whom items are assigned. */
  people: readonly string[];
}

export function Matter({ waiting, people }: Props) {
  const { about, kind } = waiting;
  const problem = useDecisions().problems.get(waiting.id);
  return (
    <article className="matter" aria-labelledby="matter-title" onClickCapture={onlyFirst}>
      <header>
        <h2 id="matter-title">{plain(waiting.title)}</h2>
        <p className="facts-line">
          {"task" in about && <StateMark table={about.task.lifecycle} state={about.task.state} />}
          {"question" in about && <StateMark table="job" state={about.question.state} />}
          <span title="Project">{plain(waiting.project)}</span>
          <span title="Task type (intent)">{plain(waiting.intent)}</span>
          <span title="Priority">{waiting.priority}</span>
          <span>
            waiting for <When at={waiting.since} brief />
          </span>
          {"task" in about && <Link to={linkTo.task(about.task.id)}>Open the task</Link>}
          {"question" in about && <Link to={linkTo.job(about.question.job_id)}>Open the job</Link>}
        </p>
        {"task" in about && <Handling task={about.task} people={people} />}
      </header>
      {problem && <Trouble problem={problem} />}
      <section aria-label={KIND_WORDS[kind]}>
        <Body waiting={waiting} />
      </section>
    </article>
  );
}

/** Ignore the second click of a double click on a button: the first one may have opened the next
 * item, whose button is in the same place. */
function onlyFirst(event: MouseEvent): void {
  if (event.detail < 2 || !(event.target as Element).closest("button")) return;
  event.preventDefault();
  event.stopPropagation();
}

function Body({ waiting: { about, kind } }: { waiting: Waiting }) {
  if ("question" in about) return <JobAsks question={about.question} />;
  if ("refused" in about) return <Refused row={about.refused} />;
  const OfTask = BODIES[kind as Exclude<Kind, "refused">];
  return <OfTask task={about.task} kind={kind} />;
}
