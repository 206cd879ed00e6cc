// The fields of a form from a JSON Schema: the arguments that the handler of an intent declares.

export type Schema = Record<string, unknown>;
export type FieldKind = "text" | "number" | "integer" | "boolean" | "choice" | "json";

export interface SchemaField {
  name: string;
  kind: FieldKind;
  required: boolean;
  /** For a choice, the values to choose from. */
  choices: unknown[];
  /** What is used if the field is left empty. */
  fallback: unknown;
  meaning: string;
}

/** What the fields contain: texts, as they were typed. */
export type Texts = Record<string, string>;

const KINDS: Record<string, FieldKind> = {
  string: "text",
  number: "number",
  integer: "integer",
  boolean: "boolean",
};

/** The fields of a schema; null if it does not describe an object with known properties only. */
export function fieldsOf(schema: Schema | null | undefined): SchemaField[] | null {
  const properties = schema?.properties as Record<string, Schema> | undefined;
  if (!schema || !properties || schema.additionalProperties === true) return null;
  const required = (schema.required ?? []) as string[];
  return Object.entries(properties).map(([name, property]) => {
    const plain = withoutNull(property);
    const choices = Array.isArray(plain.enum) ? plain.enum : [];
    return {
      name,
      kind: choices.length ? "choice" : (KINDS[String(plain.type)] ?? "json"),
      required: required.includes(name),
      choices,
      fallback: property.default,
      meaning: String(property.description ?? plain.description ?? ""),
    };
  });
}

/** The schema of a value that may also be null: a field that is left empty is not sent. */
function withoutNull(schema: Schema): Schema {
  const kinds = (schema.anyOf ?? []) as Schema[];
  const others = kinds.filter((each) => each.type !== "null");
  return others.length === 1 ? { ...schema, ...others[0]! } : schema;
}

/** The texts of an existing payload. */
export function textsOf(fields: readonly SchemaField[], payload: unknown): Texts {
  const given = (payload ?? {}) as Record<string, unknown>;
  return Object.fromEntries(
    fields
      .filter(({ name }) => given[name] !== undefined)
      .map((field) => [field.name, textOf(field, given[field.name])]),
  );
}

function textOf(field: SchemaField, value: unknown): string {
  if (field.kind === "choice") return String(field.choices.indexOf(value));
  return field.kind === "json" || typeof value !== "string" ? JSON.stringify(value) : value;
}

/** The payload of the texts, or by field what is wrong. */
export function payloadOf(
  fields: readonly SchemaField[],
  texts: Texts,
): { payload: Record<string, unknown> } | { wrong: Record<string, string> } {
  const payload: Record<string, unknown> = {};
  const wrong: Record<string, string> = {};
  for (const field of fields) {
    const typed = texts[field.name] ?? "";
    const text = field.kind === "text" ? typed : typed.trim();
    if (text === "") {
      if (field.required) wrong[field.name] = "This field is required.";
      continue;
    }
    try {
      payload[field.name] = valueFrom(field, text);
    } catch (problem) {
      wrong[field.name] = (problem as Error).message;
    }
  }
  return Object.keys(wrong).length ? { wrong } : { payload };
}

function valueFrom(field: SchemaField, text: string): unknown {
  if (field.kind === "choice") return field.choices[Number(text)];
  if (field.kind === "boolean") return text === "true";
  if (field.kind === "json") return parsed(text);
  if (field.kind === "text") return text;
  const number = Number(text);
  if (!Number.isFinite(number)) throw new Error("This must be a number.");
  if (field.kind === "integer" && !Number.isInteger(number)) {
    throw new Error("This must be a whole number.");
  }
  return exact(number);
}

/** The value of a JSON text, with an error that says what to correct. */
export function parsed(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (problem) {
    throw new Error(`This is not JSON: ${(problem as Error).message}.`);
  }
  checkNumbers(value);
  return value;
}

/** A browser changes the last digits of larger numbers: they are refused instead. */
function exact(number: number): number {
  if (Number.isInteger(number) && !Number.isSafeInteger(number)) {
    const limit = Number.MAX_SAFE_INTEGER.toLocaleString("en");
    throw new Error(
      `A browser changes whole numbers above ${limit}. Use the command line, or send a text.`,
    );
  }
  return number;
}

function checkNumbers(value: unknown): void {
  if (typeof value === "number") exact(value);
  else if (value !== null && typeof value === "object") Object.values(value).forEach(checkNumbers);
}
