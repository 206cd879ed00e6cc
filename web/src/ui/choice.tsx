// Filters of a list: a select box if the values are known, otherwise a text field.
import { type ReactNode, useEffect, useState } from "react";
import { useSearch } from "../router";
import { plain } from "../text";

type Choices = readonly string[] | undefined;

export interface Field {
  /** Where the address keeps its value. */
  key: string;
  /** The label; the key if there is none. */
  name?: string;
  choices?: Choices;
}

export function Filters({ fields, children }: { fields: readonly Field[]; children?: ReactNode }) {
  const [search, change] = useSearch();
  return (
    <div className="filters">
      {fields.map(({ key, name, choices }) => (
        <Choice
          key={key}
          name={name ?? key}
          value={search.get(key) ?? ""}
          choices={choices}
          onChange={(value) => change({ [key]: value })}
        />
      ))}
      {children}
    </div>
  );
}

interface Props {
  name: string;
  value: string;
  choices?: Choices;
  onChange: (value: string | null) => void;
}

function Choice({ name, value, choices, onChange }: Props) {
  if (!choices) return <Typed name={name} value={value} onChange={onChange} />;
  const known = value && !choices.includes(value) ? [...choices, value] : choices;
  return (
    <select
      className="input small"
      aria-label={`Filter by ${name}`}
      data-set={value !== ""}
      value={value}
      onChange={(event) => onChange(event.target.value || null)}
    >
      <option value="">any {name}</option>
      {known.map((each) => (
        <option key={each} value={each}>
          {plain(each)}
        </option>
      ))}
    </select>
  );
}

function Typed({ name, value, onChange }: Props) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <input
      className="input small"
      aria-label={`Filter by ${name}`}
      placeholder={`any ${name}`}
      data-set={value !== ""}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onBlur={() => text !== value && onChange(text || null)}
      onKeyDown={(event) => event.key === "Enter" && onChange(text || null)}
    />
  );
}
