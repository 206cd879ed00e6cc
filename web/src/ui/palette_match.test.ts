import { expect, test } from "vitest";
import { type Entry, ranked } from "./palette_match";

const entry = (name: string, words = ""): Entry => ({
  key: name,
  name,
  kind: "page",
  words,
  act: () => undefined,
});
const ALL = [
  entry("Inbox", "questions reviews"),
  entry("New task"),
  entry("Workers"),
  entry("Runs"),
];
const names = (typed: string) => ranked(ALL, typed).map((each) => each.name);

test("nothing typed shows everything in order", () => {
  expect(names(" ")).toEqual(["Inbox", "New task", "Workers", "Runs"]);
});
test("the beginning of the name is best, then of a word, then any part, then the letters", () => {
  expect(names("r")).toEqual(["Runs", "Inbox", "Workers"]);
  expect(names("task")).toEqual(["New task"]);
  expect(names("review")).toEqual(["Inbox"]);
  expect(names("nwtsk")).toEqual(["New task"]);
});
test("what the server has found is before what only has the letters", () => {
  const task = { ...entry("Story"), isFound: true };
  const unnamed = { ...entry("Other"), isFound: true };
  const all = [entry("Comment on the selected lines, or on the file"), unnamed, task];
  expect(ranked(all, "sto").map((each) => each.name)).toEqual([
    "Story",
    "Other",
    "Comment on the selected lines, or on the file",
  ]);
});
test("what does not match is left out, in any letter case", () => {
  expect(names("WORK")).toEqual(["Workers"]);
  expect(names("zz")).toEqual([]);
});
