// A form for a payload: a field for each argument that the handler declares, or one for all of it.
import { useState } from "react";
import { plain } from "../text";
import {
  fieldsOf,
  parsed,
  payloadOf,
  type Schema,
  type SchemaField,
  type Texts,
  textsOf,
} from "./schema_fields";

/** What was typed: a text for each field, or one for the whole payload. */
export type Typed = { texts: Texts } | { json: string };
export type Read = { payload: unknown } | { wrong: Record<string, string> };

const LIKE_JSON = /^[{["]/;

/** The key of `wrong` for a payload that is one JSON text. */
const WHOLE = "";

export function typedFrom(schema: Schema | null | undefined, payload: unknown): Typed {
  const fields = fieldsOf(schema);
  const known = new Set(fields?.map((each) => each.name));
  const fits =
    payload == null ||
    (typeof payload === "object" && Object.keys(payload).every((name) => known.has(name)));
  if (fields && fits) return { texts: textsOf(fields, payload) };
  if (payload == null) return { json: "" };
  const isText = typeof payload === "string" && !LIKE_JSON.test(payload.trim());
  return { json: isText ? payload : JSON.stringify(payload, null, 2) };
}

/** The payload that was typed, or what is wrong with it. */
export function readTyped(schema: Schema | null | undefined, typed: Typed): Read {
  if ("texts" in typed) return payloadOf(fieldsOf(schema) ?? [], typed.texts);
  try {
    return { payload: wholePayload(typed.json.trim()) };
  } catch (problem) {
    return { wrong: { [WHOLE]: (problem as Error).message } };
  }
}

/** JSON, or a text: what begins as JSON does must be JSON. */
function wholePayload(text: string): unknown {
  if (!text) return {};
  return LIKE_JSON.test(text) ? parsed(text) : text;
}

/** What is typed for a task type, and what is wrong with it. Another type begins with its own
 * fields, while the rest of the form stays as it is. */
export function useTyped(intent: string, schema: Schema | null, payload: unknown) {
  const begin = () => ({
    intent,
    schema,
    typed: typedFrom(schema, payload),
    wrong: {} as Record<string, string>,
  });
  const [state, setState] = useState(begin);
  if (state.intent !== intent) setState(begin());
  const read = (): Read => {
    const found = readTyped(state.schema, state.typed);
    setState({ ...state, wrong: "wrong" in found ? found.wrong : {} });
    return found;
  };
  return {
    /** The schema for which it is typed: that of the task type may change or be gone meanwhile. */
    schema: state.schema,
    typed: state.typed,
    wrong: state.wrong,
    setTyped: (typed: Typed) => setState({ ...state, typed }),
    /** The payload that was typed, or what is wrong with it, which is then shown. */
    read,
  };
}

interface Props {
  schema: Schema | null | undefined;
  typed: Typed;
  onChange: (typed: Typed) => void;
  wrong: Record<string, string>;
}

export function PayloadForm({ schema, typed, onChange, wrong }: Props) {
  if ("json" in typed) {
    return (
      <label className="field">
        <span>Payload (text or JSON)</span>
        <textarea
          className="input mono"
          rows={6}
          spellCheck={false}
          value={typed.json}
          onChange={(event) => onChange({ json: event.target.value })}
        />
        <Wrong text={wrong[WHOLE]} />
      </label>
    );
  }
  const fields = fieldsOf(schema) ?? [];
  if (!fields.length) return <p className="faint">This task type takes no arguments.</p>;
  return (
    <div className="stack">
      {fields.map((field) => (
        <div key={field.name} className="field">
          <label htmlFor={`payload-${field.name}`}>
            {plain(field.name)}
            {field.required ? " (required)" : ""}
            {field.meaning && `: ${plain(field.meaning)}`}
          </label>
          <Control
            id={`payload-${field.name}`}
            field={field}
            value={typed.texts[field.name] ?? ""}
            onChange={(text) => onChange({ texts: { ...typed.texts, [field.name]: text } })}
          />
          <Wrong text={wrong[field.name]} />
        </div>
      ))}
    </div>
  );
}

interface ControlProps {
  id: string;
  field: SchemaField;
  value: string;
  onChange: (text: string) => void;
}

function Control({ id, field, value, onChange }: ControlProps) {
  const hint = field.fallback === undefined ? "" : JSON.stringify(field.fallback);
  if (field.kind === "choice" || field.kind === "boolean") {
    const options: [string, string][] =
      field.kind === "boolean"
        ? [
            ["true", "yes"],
            ["false", "no"],
          ]
        : field.choices.map((each, index) => [String(index), String(each)]);
    return (
      <select
        id={id}
        className="input"
        value={value}
        onChange={(event) => onChange(event.target.value)}
      >
        <option value="">{hint ? `default: ${plain(hint)}` : "none"}</option>
        {options.map(([key, name]) => (
          <option key={key} value={key}>
            {plain(name)}
          </option>
        ))}
      </select>
    );
  }
  const common = {
    id,
    className: `input ${field.kind === "json" ? "mono" : ""}`,
    value,
    placeholder: plain(field.kind === "json" && !hint ? "JSON" : hint),
    spellCheck: field.kind === "text",
  };
  if (field.kind === "text" || field.kind === "json") {
    return <textarea {...common} rows={1} onChange={(event) => onChange(event.target.value)} />;
  }
  return (
    <input
      {...common}
      inputMode={field.kind === "integer" ? "numeric" : "decimal"}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}

function Wrong({ text }: { text: string | undefined }) {
  return text ? (
    <span className="bad-text" role="alert">
      {plain(text)}
    </span>
  ) : null;
}
