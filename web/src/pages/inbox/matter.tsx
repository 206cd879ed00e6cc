// One item of the inbox: what is needed, its background, and the controls that settle it.
import type { InboxTask } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { plain } from "../../text";
import { StateMark } from "../../ui/state";
import { When } from "../../ui/when";
import { Budget } from "./budget";
import { Failure } from "./failure";
import { KIND_WORDS, type Kind, type Waiting } from "./kinds";
import { JobAsks, TaskAsks } from "./question";
import { Refused } from "./refused";
import { Review } from "./review";

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

export function Matter({ waiting }: { waiting: Waiting }) {
  const { about, kind } = waiting;
  return (
    <article className="matter" aria-labelledby="matter-title">
      <header>
        <h2 id="matter-title">{plain(waiting.title)}</h2>
        <p className="facts-line">
          {"task" in about && <StateMark table={about.task.lifecycle} state={about.task.state} />}
          {"question" in about && <StateMark table="job" state={about.question.state} />}
          <span>{plain(waiting.project)}</span>
          <span>{plain(waiting.intent)}</span>
          <span>{waiting.priority}</span>
          <span>
            waiting for <When at={waiting.since} brief />
          </span>
          {"task" in about && <Link to={linkTo.task(about.task.id)}>Open the task</Link>}
          {"question" in about && <Link to={linkTo.job(about.question.job_id)}>Open the job</Link>}
        </p>
      </header>
      <section aria-label={KIND_WORDS[kind]}>
        <Body waiting={waiting} />
      </section>
    </article>
  );
}

function Body({ waiting: { about, kind } }: { waiting: Waiting }) {
  if ("question" in about) return <JobAsks question={about.question} />;
  if ("refused" in about) return <Refused row={about.refused} />;
  const OfTask = BODIES[kind as Exclude<Kind, "refused">];
  return <OfTask task={about.task} kind={kind} />;
}
