// The parts of a highlighted line. The highlighter returns markup in one fixed form; it is
// split here into parts of text, so that nothing from a file ever becomes markup of this page.

/** A class for the style sheet, or none, and a text. */
export type Token = readonly [string | null, string];

const PART = /<span class="([\w\- ]*)">|<\/span>|&(amp|lt|gt|quot|#x27);|[^<&]+|[<&]/g;
const CHARACTERS: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#x27": "'" };

/** The tokens of each line of a highlighted text. */
export function readTokens(markup: string): Token[][] {
  const lines: Token[][] = [[]];
  const classes: string[] = [];
  const add = (text: string) => {
    for (const [at, part] of text.split("\n").entries()) {
      if (at > 0) lines.push([]);
      if (part) append(lines.at(-1)!, classes.at(-1) ?? null, part);
    }
  };
  for (const [all, opened, character] of markup.matchAll(PART)) {
    if (opened !== undefined) classes.push(opened);
    else if (all === "</span>") classes.pop();
    else add(character ? CHARACTERS[character]! : all);
  }
  return lines;
}

function append(line: Token[], kind: string | null, text: string): void {
  const last = line.at(-1);
  if (last && last[0] === kind) line[line.length - 1] = [kind, last[1] + text];
  else line.push([kind, text]);
}

export interface Piece {
  kind: string | null;
  text: string;
  changed: boolean;
}

/** The tokens of a line, cut where the changed part of it begins and ends. */
export function pieces(tokens: readonly Token[], span: readonly [number, number] | null): Piece[] {
  const found: Piece[] = [];
  let at = 0;
  for (const [kind, text] of tokens) {
    const end = at + text.length;
    const [from, to] = span ? [clamp(span[0], at, end), clamp(span[1], at, end)] : [end, end];
    const parts: [number, number, boolean][] = [
      [at, from, false],
      [from, to, true],
      [to, end, false],
    ];
    for (const [start, stop, changed] of parts) {
      if (stop > start) found.push({ kind, text: text.slice(start - at, stop - at), changed });
    }
    at = end;
  }
  return found;
}

const clamp = (value: number, least: number, most: number) =>
  Math.min(Math.max(value, least), most);
