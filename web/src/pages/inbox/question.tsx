// A question or a confirmation: its options as buttons, and, if allowed, a field for a free text.
import { type FormEvent, useState } from "react";
import type { Problem } from "../../api/call";
import type { JobQuestion, Task } from "../../api/schema";
import { plain } from "../../text";
import { Trouble } from "../../ui/notes";
import { Behind, BehindJob } from "./behind";
import { type Asked, asked } from "./kinds";
import { useSettling } from "./settling";

export function TaskAsks({ task }: { task: Task }) {
  const answer = useSettling("answer_task", "Answered", task);
  const send = (value: unknown) => answer.mutate({ task_id: task.id, answer: value });
  return (
    <>
      <Question question={asked(task.blocked_detail)} send={send} answer={answer} />
      <Behind task={task} />
    </>
  );
}

/** What a job without a task asks, by its name, so that no other question gets the answer. */
export function JobAsks({ question }: { question: JobQuestion }) {
  const { job_id, name, intent } = question;
  const answer = useSettling("answer_job", "Answered", { title: "", intent });
  const cancel = useSettling("cancel_job", "Cancelled", { title: "", intent });
  const send = (value: unknown) => answer.mutate({ job_id, question: name, answer: value });
  return (
    <>
      <Question question={asked(question.detail)} send={send} answer={answer} />
      <div className="row">
        <button
          type="button"
          className="button danger"
          disabled={cancel.isPending}
          onClick={() => cancel.mutate({ job_id })}
        >
          Cancel the job
        </button>
      </div>
      {cancel.error && <Trouble problem={cancel.error} />}
      <BehindJob id={job_id} />
    </>
  );
}

interface Props {
  question: Asked;
  send: (value: unknown) => void;
  answer: { isPending: boolean; error: Problem | null };
}

function Question({ question, send, answer }: Props) {
  const [text, setText] = useState("");
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
              disabled={answer.isPending}
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
            <button
              type="submit"
              className="button primary"
              disabled={answer.isPending || !text.trim()}
            >
              Send the answer
            </button>
            <span className="faint">
              <kbd>ctrl</kbd> <kbd>enter</kbd> sends the answer; the work then continues.
            </span>
          </div>
        </form>
      )}
      {answer.error && <Trouble problem={answer.error} />}
    </>
  );
}
