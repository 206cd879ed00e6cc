// The output of a run: an agent's as a transcript or as its raw lines, any other as it is.
import { useState } from "react";
import type { Run } from "../api/schema";
import { RunOutput } from "./output";
import { Transcript } from "./transcript";

const FORMS = ["Transcript", "Raw"] as const;

export function RunLog({ run }: { run: Run }) {
  const [form, setForm] = useState<(typeof FORMS)[number]>("Transcript");
  // Every run of an agent has a session.
  if (run.session_id === null) return <RunOutput run={run} />;
  return (
    <>
      <fieldset className="segments run-forms">
        <legend className="unseen">Form of the output</legend>
        {FORMS.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === form}
            onClick={() => setForm(each)}
          >
            {each}
          </button>
        ))}
      </fieldset>
      {form === "Raw" ? <RunOutput run={run} /> : <Transcript run={run} />}
    </>
  );
}
