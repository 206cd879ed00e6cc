// A question or a confirmation: its options as buttons, and, if allowed, a field for a free text.
import type { FormEvent } from "react";
import type { InboxTask, JobQuestion } from "../../api/schema";
import { Link, linkTo } from "../../router";
import { plain } from "../../text";
import { Behind, BehindJob } from "./behind";
import { type Asked, asked, may } from "./kinds";
import { useDecision, useDraft } from "./settling";

export function TaskAsks({ task }: { task: InboxTask }) {
  const answer = useDecision("answer_task", "Answered", task);
  const cancel = useDecision("cancel_task", "Cancelled", task);
  // The wait, so that an answer that is sent later does not reach another question.
  const wait = typeof task.blocked_detail.wait === "string" ? task.blocked_detail.wait : null;
  const send = (value: unknown) => answer({ task_id: task.id, question: wait, answer: value });
  return (
    <>
      {may(task, "choose") ? (
        <Choice task={task} />
      ) : (
        <Question
          question={asked(task.blocked_detail)}
          send={send}
          id={task.id}
          wait={wait ?? task.state_at}
        />
      )}
      {may(task, "cancel") && (
        <div className="row">
          <button
            type="button"
            className="button danger"
            onClick={() => cancel({ task_id: task.id })}
          >
            Cancel the task
          </button>
        </div>
      )}
      <Behind task={task} />
    </>
  );
}

/** Which variant to choose is decided where they are compared. */
function Choice({ task }: { task: InboxTask }) {
  return (
    <>
      <p className="asked">{plain(asked(task.blocked_detail).text)}</p>
      <div className="row">
        <Link className="button primary" data-key="option" to={linkTo.task(task.id, "variants")}>
          Compare and choose
        </Link>
      </div>
    </>
  );
}

/** What a job without a task asks, by its name, so that no other question gets the answer. */
export function JobAsks({ question }: { question: JobQuestion }) {
  const { job_id, name, intent } = question;
  const item = { id: `${job_id}:${name}`, title: "", intent };
  const answer = useDecision("answer_job", "Answered", item);
  const cancel = useDecision("cancel_job", "Cancelled", item);
  const send = (value: unknown) => answer({ job_id, question: name, answer: value });
  return (
    <>
      <Question question={asked(question.detail)} send={send} id={item.id} wait={name} />
      <div className="row">
        <button type="button" className="button danger" onClick={() => cancel({ job_id })}>
          Cancel the job
        </button>
      </div>
      <BehindJob id={job_id} />
    </>
  );
}

interface Props {
  question: Asked;
  send: (value: unknown) => void;
  id: string;
  wait: string;
}

function Question({ question, send, id, wait }: Props) {
  const [text, setText] = useDraft(id, "question", wait);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) send(text);
  };
  return (
    <>
      <p className="asked">{plain(question.text)}</p>
      {question.options.length > 0 && (
        <div className="row wrap" role="group" aria-label="Answers">
          {question.options.map((option, index) => (
            <button
              key={option}
              type="button"
              className="button option"
              data-key={index === 0 ? "option" : undefined}
              onClick={() => send(question.values[index])}
            >
              {plain(option)}
            </button>
          ))}
        </div>
      )}
      {question.free && (
        <form className="stack" onSubmit={submit}>
          <label className="field">
            <span>Your answer</span>
            <textarea
              className="input"
              data-key="main"
              rows={3}
              value={text}
              onChange={(event) => setText(event.target.value)}
              onKeyDown={(event) => {
                if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) submit(event);
              }}
            />
          </label>
          <div className="row">
            <button type="submit" className="button primary" disabled={!text.trim()}>
              Send the answer
            </button>
            <span className="faint">
              <kbd>ctrl</kbd> <kbd>enter</kbd> sends the answer; the work then continues.
            </span>
          </div>
        </form>
      )}
    </>
  );
}
