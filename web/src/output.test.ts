import { expect, test } from "vitest";
import { Terminal } from "./ansi";
import { linesWith, timedParts } from "./output";

const TEXT = "one\ntwo\nthree\nfour";
const time = (second: number) => `2026-01-01T00:00:0${second}.000Z`;
const ms = (second: number) => Date.parse(time(second));

test("the lines of a part have the times that the server names", () => {
  const terminal = new Terminal();
  const times = [
    { line: 0, at: time(1) },
    { line: 2, at: time(2) },
    { line: 3, at: time(3) },
  ];
  for (const { text, at } of timedParts({ text: TEXT, times })) terminal.write(text, at);
  expect(terminal.lines).toHaveLength(4);
  expect(terminal.times).toEqual([ms(1), ms(1), ms(2), ms(3)]);
});

test("a line that continues in the next part keeps its time", () => {
  const terminal = new Terminal();
  terminal.write("begun", ms(1));
  for (const { text, at } of timedParts({
    text: " ended\nnext",
    times: [{ line: 0, at: time(5) }],
  }))
    terminal.write(text, at);
  expect(terminal.times).toEqual([ms(1), ms(5)]);
});

test("without times there is one part without a time", () => {
  expect(timedParts({ text: TEXT, times: [] })).toEqual([{ text: TEXT, at: null }]);
  expect(timedParts({ text: "", times: [] })).toEqual([]);
});

test("a search finds lines across colours, in any letter case", () => {
  const terminal = new Terminal();
  terminal.write("\u001b[31mErr\u001b[0mor 1\nfine\nERROR 2\n");
  expect(linesWith(terminal.lines, "error")).toEqual([0, 2]);
  expect(linesWith(terminal.lines, "")).toEqual([]);
});
