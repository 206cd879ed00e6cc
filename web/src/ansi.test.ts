import { describe, expect, test } from "vitest";
import { Terminal } from "./ansi";

const ESC = "\u001b";
const texts = (terminal: Terminal) =>
  terminal.lines.map((line) => line.map((piece) => piece.text).join(""));

function written(...pieces: string[]): Terminal {
  const terminal = new Terminal();
  for (const piece of pieces) terminal.write(piece);
  return terminal;
}

describe("colours", () => {
  test("sixteen colours, bold and reset become styles", () => {
    const [line] = written(`${ESC}[1;31mbad${ESC}[0m good`).lines;
    expect(line).toEqual([
      { text: "bad", style: { bold: true, ink: 1 } },
      { text: " good", style: {} },
    ]);
  });
  test("many colours become the nearest of sixteen", () => {
    const [line] = written(`${ESC}[38;5;196mx${ESC}[38;2;0;255;0my${ESC}[48;5;21mz`).lines;
    expect(line!.map((piece) => piece.style)).toEqual([
      { ink: 9 },
      { ink: 10 },
      { ink: 10, paper: 12 },
    ]);
  });
  test("a sequence may be cut anywhere between two pieces", () => {
    const terminal = written(`a${ESC}`, "[3", "2mb");
    expect(terminal.lines[0]).toEqual([
      { text: "a", style: {} },
      { text: "b", style: { ink: 2 } },
    ]);
  });
});

describe("what a terminal would obey is dropped", () => {
  test.each([
    ["moves of the cursor", `one${ESC}[2A${ESC}[1;1Htwo`, "onetwo"],
    ["clearing the screen", `one${ESC}[2J${ESC}ctwo`, "onetwo"],
    ["a title", `one${ESC}]0;evil\u0007two`, "onetwo"],
    ["a link", `${ESC}]8;;http://evil${ESC}\\click${ESC}]8;;${ESC}\\`, "click"],
    ["device strings", `${ESC}P1;2|evil${ESC}\\ok`, "ok"],
  ])("%s", (_, given, kept) => {
    expect(texts(written(given))).toEqual([kept]);
  });
  test("what turns the line around is shown as a sign", () => {
    expect(texts(written("safe\u202egnp.exe"))).toEqual(["safe\ufffdgnp.exe"]);
  });
  test("an escape that never ends does not hide the rest", () => {
    const terminal = written(`x${ESC}]0;${"e".repeat(5_000)}`, "\u0007after\n");
    expect(texts(terminal)).toEqual(["x\ufffdafter"]);
  });
});

test("a carriage return starts the line again, a line feed after it does not", () => {
  expect(texts(written("10 %\r50 %\r100 %\r\ndone\n"))).toEqual(["100 %", "done"]);
});

test("empty lines stay, and the last line goes on", () => {
  expect(texts(written("a\n\nb", "c\n"))).toEqual(["a", "", "bc"]);
});

test("a maximum of lines is kept, and the dropped ones are counted", () => {
  const terminal = new Terminal(3);
  terminal.write("1\n2\n3\n4\n5\n");
  expect([texts(terminal), terminal.dropped]).toEqual([["3", "4", "5"], 2]);
});
