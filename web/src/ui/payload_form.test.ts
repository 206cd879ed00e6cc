import { describe, expect, test } from "vitest";
import { readTyped, typedFrom } from "./payload_form";

describe("a payload without declared arguments", () => {
  const read = (json: string) => readTyped(null, { json });
  test("is text, or JSON if it begins like JSON", () => {
    expect(read(" Fix the 3 bugs ")).toEqual({ payload: "Fix the 3 bugs" });
    expect(read('{"bug": 3}')).toEqual({ payload: { bug: 3 } });
    expect(read("")).toEqual({ payload: {} });
    expect(read('{"bug": ')).toHaveProperty("wrong");
  });
  test("is the same after it was shown and read again", () => {
    for (const payload of ["text", "{not json", { a: [1] }, ["x"], "42"]) {
      expect(readTyped(null, typedFrom(null, payload))).toEqual({ payload });
    }
  });
});
