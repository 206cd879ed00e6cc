import { describe, expect, test } from "vitest";
import { fieldsOf, parsed, payloadOf, textsOf } from "./schema_fields";

const SCHEMA = {
  type: "object",
  required: ["text", "count"],
  properties: {
    text: { type: "string", description: "What to say" },
    count: { type: "integer" },
    ratio: { anyOf: [{ type: "number" }, { type: "null" }], default: null },
    loud: { type: "boolean", default: false },
    colour: { enum: ["red", "blue", 3] },
    files: { type: "object" },
  },
};
const FIELDS = fieldsOf(SCHEMA)!;

describe("fields of a schema", () => {
  test("each property is a field that suits its type", () => {
    expect(FIELDS.map(({ name, kind, required }) => [name, kind, required])).toEqual([
      ["text", "text", true],
      ["count", "integer", true],
      ["ratio", "number", false],
      ["loud", "boolean", false],
      ["colour", "choice", false],
      ["files", "json", false],
    ]);
    expect(FIELDS[0]!.meaning).toBe("What to say");
  });
  test("what is no object has no fields", () => {
    const open = { ...SCHEMA, additionalProperties: true };
    for (const schema of [null, undefined, {}, { type: "string" }, open]) {
      expect(fieldsOf(schema)).toBe(null);
    }
  });
  test("texts become values of the declared types; empty fields are left out", () => {
    const texts = { text: "12", count: "3", ratio: "0.5", loud: "true", colour: "2", files: "{}" };
    expect(payloadOf(FIELDS, texts)).toEqual({
      payload: { text: "12", count: 3, ratio: 0.5, loud: true, colour: 3, files: {} },
    });
    expect(payloadOf(FIELDS, { text: "a", count: "0", ratio: "" })).toEqual({
      payload: { text: "a", count: 0 },
    });
  });
  test("what is wrong is reported by field", () => {
    const found = payloadOf(FIELDS, { count: "1.5", ratio: "much", files: "{" });
    expect(found).toEqual({
      wrong: {
        text: "This field is required.",
        count: "This must be a whole number.",
        ratio: "This must be a number.",
        files: expect.stringContaining("This is not JSON"),
      },
    });
  });
  test("white space is no number, and a number that a browser changes is refused", () => {
    expect(payloadOf(FIELDS, { text: " ", count: " 3 ", ratio: " " })).toEqual({
      payload: { text: " ", count: 3 },
    });
    const texts = { text: "a", count: "12345678901234567890", files: '{"id": [9007199254740993]}' };
    expect(payloadOf(FIELDS, texts)).toEqual({
      wrong: {
        count: expect.stringContaining("above 9,007,199,254,740,991"),
        files: expect.stringContaining("above 9,007,199,254,740,991"),
      },
    });
    expect(parsed("9007199254740991")).toBe(Number.MAX_SAFE_INTEGER);
  });
  test("a payload becomes texts and back", () => {
    const payload = { text: "5", count: 2, loud: false, colour: "blue", files: { a: [1] } };
    expect(payloadOf(FIELDS, textsOf(FIELDS, payload))).toEqual({ payload });
  });
  test("JSON is read with an error that says what it is", () => {
    expect(parsed('{"a": 1}')).toEqual({ a: 1 });
    expect(() => parsed("{a}")).toThrow("This is not JSON");
  });
});
