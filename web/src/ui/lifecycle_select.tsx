// Chooses the lifecycle of a task that is submitted.
import { plain } from "../text";
import { useTables } from "./tables";

interface Props {
  /** The name of a lifecycle; empty for the default. */
  value: string;
  onChange: (name: string) => void;
}

export function LifecycleSelect({ value, onChange }: Props) {
  const lifecycles = useTables()
    .newest()
    .filter((each) => each.kind === "task");
  return (
    <label className="field">
      <span>Lifecycle</span>
      <select className="input" value={value} onChange={(event) => onChange(event.target.value)}>
        <option value="">default</option>
        {lifecycles.map((each) => (
          <option key={each.id} value={each.name}>
            {plain(each.title || each.name)}
          </option>
        ))}
      </select>
    </label>
  );
}
