// The choice of a task type. One that nothing declares any more stays a choice if it is in use.
import type { KnownIntent } from "../api/schema";
import { plain } from "../text";

/** The task type of that name, declared or not; the first declared one without a name. */
export function intentNamed(known: readonly KnownIntent[], name: string): KnownIntent | undefined {
  if (!name) return known[0];
  return known.find((each) => each.name === name) ?? undeclared(name);
}

function undeclared(name: string): KnownIntent {
  return { name, kind: "function", origins: [], paused: false, workers: 0, arguments: null };
}

interface Props {
  known: readonly KnownIntent[];
  chosen: KnownIntent | undefined;
  onChange: (name: string) => void;
}

export function IntentSelect({ known, chosen, onChange }: Props) {
  const stray = chosen && !known.includes(chosen);
  return (
    <label className="field">
      <span>Task type</span>
      <select
        className="input"
        value={chosen?.name ?? ""}
        onChange={(event) => onChange(event.target.value)}
      >
        {stray && <option value={chosen.name}>{plain(chosen.name)} (not declared now)</option>}
        {known.map((each) => (
          <option key={each.name} value={each.name}>
            {plain(each.name)}
          </option>
        ))}
      </select>
    </label>
  );
}
