// The line above what a run writes: its state, the search, the options and the download.
import type { ReactNode } from "react";
import type { Run } from "../api/schema";
import type { Search } from "./growing_log";
import { RunMark } from "./state";

interface Props {
  run: Pick<Run, "id" | "state" | "outcome">;
  /** How much there is. */
  amount: string;
  ended: boolean;
  /** The search and the options; a short view has none. */
  children?: ReactNode;
}

export function LogHead({ run, amount, ended, children }: Props) {
  return (
    <div className="row wrap output-head">
      <RunMark run={run} />
      <span className="faint" aria-live="polite">
        {amount}
        {ended ? ", complete" : ", live"}
      </span>
      {children}
    </div>
  );
}

export function DownloadRaw({ runId }: { runId: string }) {
  return (
    <a href={`/api/runs/${encodeURIComponent(runId)}/output/file`} download>
      Download raw
    </a>
  );
}

export function Check({
  name,
  on,
  set,
}: {
  name: string;
  on: boolean;
  set: (on: boolean) => void;
}) {
  return (
    <label className="check">
      <input type="checkbox" checked={on} onChange={(event) => set(event.target.checked)} />
      {name}
    </label>
  );
}

export function SearchBox({ search, label }: { search: Search; label: string }) {
  const { wanted, found, at, change, move } = search;
  return (
    <search className="row log-search">
      <input
        type="search"
        className="input small"
        placeholder="Search"
        aria-label={label}
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
        }}
      />
      <span className="faint" role="status">
        {wanted && (found.length ? `${at + 1} of ${found.length}` : "not found")}
      </span>
      <Step name="Previous match" sign="↑" disabled={!found.length} press={() => move(-1)} />
      <Step name="Next match" sign="↓" disabled={!found.length} press={() => move(1)} />
    </search>
  );
}

interface StepProps {
  name: string;
  sign: string;
  disabled: boolean;
  press: () => void;
}

function Step({ name, sign, disabled, press }: StepProps) {
  return (
    <button
      type="button"
      className="button small"
      aria-label={name}
      title={name}
      disabled={disabled}
      onClick={press}
    >
      {sign}
    </button>
  );
}
