// One matter of the inbox: what is asked, what there is to know, and the controls that settle it.
import type { Task } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { plain } from "../../text";
import { StateMark } from "../../ui/state";
import { When } from "../../ui/when";
import { Budget } from "./budget";
import { Failure } from "./failure";
import { KIND_WORDS, type Kind, titleOf } from "./kinds";
import { Question } from "./question";
import { Review } from "./review";

const BODIES: Record<Kind, (props: { task: Task; kind: Kind }) => React.ReactNode> = {
  question: Question,
  confirmation: Question,
  review: Review,
  budget: Budget,
  failure: Failure,
  quarantine: Failure,
};

export function Matter({ task, kind }: { task: Task; kind: Kind }) {
  const Body = BODIES[kind];
  return (
    <article className="matter" aria-labelledby="matter-title">
      <header>
        <h2 id="matter-title">{plain(titleOf(task))}</h2>
        <p className="facts-line">
          <StateMark table={task.lifecycle} state={task.state} />
          <span>{plain(task.project)}</span>
          <span>{plain(task.intent)}</span>
          <span>{task.priority}</span>
          <span>
            waiting since <When at={task.state_at} />
          </span>
          <Link to={linkTo.task(task.id)}>Open the task</Link>
        </p>
      </header>
      <section aria-label={KIND_WORDS[kind]}>
        <Body task={task} kind={kind} />
      </section>
    </article>
  );
}
