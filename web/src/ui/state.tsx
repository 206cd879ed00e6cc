// Shows a state with a shape, a colour and a name from the server's table.
import type { Run } from "../api/schema";
import { words } from "../text";
import { useLook, useTable, useTables } from "./tables";

const SHAPES: Record<string, string> = {
  ring: "M6 1.500a4.500 4.500 0 1 0 0 9a4.500 4.500 0 1 0 0-9zm0 2.200a2.300 2.300 0 1 1 0 4.600a2.300 2.300 0 1 1 0-4.600z",
  play: "M2.500 1.200 10.600 6l-8.100 4.800z",
  triangle: "M6 1 11.400 10.600H.6z",
  disc: "M6 1.200a4.800 4.800 0 1 0 0 9.600a4.800 4.800 0 1 0 0-9.600z",
  cross:
    "M2.700 1 6 4.300 9.300 1 11 2.700 7.700 6 11 9.300 9.300 11 6 7.700 2.700 11 1 9.300 4.300 6 1 2.700z",
  square: "M1.600 1.600h8.800v8.800H1.600z",
};

export function Shape({ name }: { name: string }) {
  return (
    <svg className="shape" viewBox="0 0 12 12" aria-hidden="true" focusable="false">
      <path d={SHAPES[name] ?? SHAPES.square} fillRule="evenodd" />
    </svg>
  );
}

interface Props {
  table: string;
  state: string;
  quiet?: boolean;
}

export function StateMark({ table, state, quiet }: Props) {
  const { look, appearance } = useLook(table, state);
  const meaning = useTable(table).meanings[state];
  return (
    <span className={`state ${quiet ? "quiet" : ""}`} data-look={look} title={meaning}>
      <Shape name={appearance.shape} />
      {words(state)}
    </span>
  );
}

/** The state of a run. One that stopped to wait or for its budget is not shown as a success. */
export function RunMark({ run, quiet }: { run: Pick<Run, "state" | "outcome">; quiet?: boolean }) {
  if (run.outcome === "suspended")
    return (
      <Mark look="waiting" quiet={quiet}>
        suspended
      </Mark>
    );
  if (run.outcome === "budget")
    return (
      <Mark look="attention" quiet={quiet}>
        budget
      </Mark>
    );
  return <StateMark table="run" state={run.state} quiet={quiet} />;
}

interface MarkProps {
  look: string;
  quiet?: boolean;
  children: string;
}

/** The same for a state that is in no lifecycle: its look and its name. */
export function Mark({ look, quiet, children }: MarkProps) {
  const shape = useTables().appearances[look]?.shape ?? "square";
  return (
    <span className={`state ${quiet ? "quiet" : ""}`} data-look={look}>
      <Shape name={shape} />
      {children}
    </span>
  );
}
