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

interface FiltersProps {
  fields: readonly Field[];
  /** Other keys of the address that filter the list. */
  alsoCleared?: readonly string[];
  /** Other controls of the list. */
  children?: ReactNode;
}

export function Filters({ fields, alsoCleared = [], children }: FiltersProps) {
  const [search, change] = useSearch();
  const keys = [...fields.map((field) => field.key), ...alsoCleared];
  return (
    <div className="filters">
      {fields.map(({ key, name, choices }) => (
        <Choice
          key={key}
          name={name ?? key}
          unset={key === "search" ? `search ${name}` : `any ${name ?? key}`}
          value={search.get(key) ?? ""}
          choices={choices}
          onChange={(value) => change({ [key]: value })}
        />
      ))}
      {children}
      {keys.some((key) => search.get(key)) && (
        <button
          type="button"
          className="button small"
          onClick={() => change(Object.fromEntries(keys.map((key) => [key, null])))}
        >
          Clear
        </button>
      )}
    </div>
  );
}

interface Props {
  name: string;
  /** What is shown while it does not filter. */
  unset: string;
  value: string;
  choices?: Choices;
  onChange: (value: string | null) => void;
}

function Choice({ name, unset, value, choices, onChange }: Props) {
  if (!choices) return <Typed {...{ name, unset, value, onChange }} />;
  const known = value && !choices.includes(value) ? [...choices, value] : choices;
  return (
    <select
      className="input small"
      aria-label={`Filter by ${name}`}
      data-set={value !== ""}
      value={value}
      onChange={(event) => onChange(event.target.value || null)}
    >
      <option value="">{unset}</option>
      {known.map((each) => (
        <option key={each} value={each}>
          {plain(each)}
        </option>
      ))}
    </select>
  );
}

function Typed({ name, unset, value, onChange }: Props) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return (
    <input
      className="input small"
      aria-label={`Filter by ${name}`}
      placeholder={unset}
      data-set={value !== ""}
      value={text}
      onChange={(event) => setText(event.target.value)}
      onBlur={() => text !== value && onChange(text || null)}
      onKeyDown={(event) => event.key === "Enter" && onChange(text || null)}
    />
  );
}
