// A question or a confirmation: its options as buttons, or a field for one's own words.
import { type FormEvent, useState } from "react";
import type { Task } from "../../api/schema";
import { plain } from "../../text";
import { Trouble } from "../../ui/notes";
import { Behind } from "./behind";
import { asked } from "./kinds";
import { useSettling } from "./settling";

export function Question({ task }: { task: Task }) {
  const question = asked(task);
  const answer = useSettling("answer_task", "Answered", task);
  const [text, setText] = useState("");
  const send = (value: string) => answer.mutate({ task_id: task.id, answer: value });
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
              onClick={() => send(option)}
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
              <kbd>ctrl</kbd> <kbd>enter</kbd> sends it; the work goes on with it.
            </span>
          </div>
        </form>
      )}
      {answer.error && <Trouble problem={answer.error} />}
      <Behind task={task} />
    </>
  );
}
