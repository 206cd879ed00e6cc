// Parses terminal output into styled text. Colours are kept, everything else that a
// terminal would obey is dropped: no text can move, hide or rewrite what was shown before.
import { plain } from "./text";

export interface Style {
  /** 0-7 plain, 8-15 bright. */
  ink?: number;
  paper?: number;
  bold?: boolean;
  dim?: boolean;
  italic?: boolean;
  underline?: boolean;
}
export interface Piece {
  text: string;
  style: Style;
}
export type Line = Piece[];

const ESCAPE = String.fromCharCode(27);
const BELL = String.fromCharCode(7);
// CSI sequences; OSC, DCS, SOS, PM and APC strings up to their end; other two-letter escapes.
const SEQUENCE = new RegExp(
  `${ESCAPE}(?:\\[([0-?]*)[ -/]*([@-~])|[\\]PX^_][^${BELL}${ESCAPE}]*(?:${BELL}|${ESCAPE}\\\\|$)|[ -/]*[0-~]?)`,
  "g",
);

/** Reads output as it comes, in pieces that may end anywhere. */
export class Terminal {
  readonly lines: Line[] = [];
  /** When each line was begun; null if that is not known. */
  readonly times: (number | null)[] = [];
  private style: Style = {};
  private rest = "";
  private open: Line | undefined;
  private begun: number | null = null;
  /** Lines that were dropped at the beginning because there were too many. */
  dropped = 0;

  constructor(private readonly most = 50_000) {}

  /** Takes the next piece, and when it was written. */
  write(text: string, begun: number | null = null): void {
    this.begun = begun;
    let all = this.rest + text;
    // A sequence that has begun and not ended waits for more, up to a limit.
    const cut = all.lastIndexOf(ESCAPE);
    this.rest = "";
    if (cut >= 0 && all.length - cut < 2_000 && !isWhole(all.slice(cut))) {
      this.rest = all.slice(cut);
      all = all.slice(0, cut);
    }
    let at = 0;
    for (const found of all.matchAll(SEQUENCE)) {
      this.put(all.slice(at, found.index));
      if (found[2] === "m") this.style = restyle(this.style, found[1] ?? "");
      at = found.index + found[0].length;
    }
    this.put(all.slice(at));
    this.forget();
  }

  private put(text: string): void {
    const lines = text.split("\n");
    lines.forEach((line, index) => {
      if (index > 0) this.open = undefined;
      if (line || index < lines.length - 1)
        this.append(line.endsWith("\r") ? line.slice(0, -1) : line);
    });
  }

  private append(text: string): void {
    if (!this.open) {
      this.open = [];
      this.lines.push(this.open);
      this.times.push(this.begun);
    }
    // A carriage return starts the line again, as progress bars do.
    const overwritten = text.lastIndexOf("\r");
    if (overwritten >= 0) this.open.length = 0;
    const kept = plain(overwritten >= 0 ? text.slice(overwritten + 1) : text);
    if (!kept) return;
    const last = this.open.at(-1);
    if (last && last.style === this.style) last.text += kept;
    else this.open.push({ text: kept, style: this.style });
  }

  private forget(): void {
    const over = this.lines.length - this.most;
    if (over > 0) {
      this.lines.splice(0, over);
      this.times.splice(0, over);
      this.dropped += over;
    }
  }
}

function isWhole(sequence: string): boolean {
  SEQUENCE.lastIndex = 0;
  const found = SEQUENCE.exec(sequence);
  SEQUENCE.lastIndex = 0;
  if (!found || found[0] === ESCAPE) return false;
  const second = sequence[1] ?? "";
  if (second === "[") return found[2] !== undefined;
  if ("]PX^_".includes(second)) return /[\u0007\\]$/.test(found[0]);
  return true;
}

function restyle(style: Style, given: string): Style {
  const codes = given.split(/[;:]/).map((each) => Number(each || 0));
  let next: Style = { ...style };
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at]!;
    if (code === 38 || code === 48) {
      const { colour, used } = extended(codes.slice(at + 1));
      if (code === 38) next.ink = colour;
      else next.paper = colour;
      at += used;
    } else next = one(next, code);
  }
  return next;
}

function one(style: Style, code: number): Style {
  if (code === 0) return {};
  if (code === 1) return { ...style, bold: true };
  if (code === 2) return { ...style, dim: true };
  if (code === 3) return { ...style, italic: true };
  if (code === 4) return { ...style, underline: true };
  if (code === 22) return { ...style, bold: false, dim: false };
  if (code === 23) return { ...style, italic: false };
  if (code === 24) return { ...style, underline: false };
  if (code === 39) return { ...style, ink: undefined };
  if (code === 49) return { ...style, paper: undefined };
  if (code >= 30 && code <= 37) return { ...style, ink: code - 30 };
  if (code >= 90 && code <= 97) return { ...style, ink: code - 82 };
  if (code >= 40 && code <= 47) return { ...style, paper: code - 40 };
  if (code >= 100 && code <= 107) return { ...style, paper: code - 92 };
  return style;
}

/** The nearest of the sixteen: a theme can make sixteen readable, not sixteen million. */
function extended(codes: number[]): { colour: number | undefined; used: number } {
  if (codes[0] === 5) return { colour: fromPalette(codes[1] ?? 0), used: 2 };
  if (codes[0] === 2) {
    return { colour: nearest(codes[1] ?? 0, codes[2] ?? 0, codes[3] ?? 0), used: 4 };
  }
  return { colour: undefined, used: codes.length };
}

function fromPalette(index: number): number {
  if (index < 16) return Math.max(0, index);
  if (index >= 232) return index < 244 ? 8 : 7;
  const at = index - 16;
  const level = (value: number) => (value ? value * 40 + 55 : 0);
  return nearest(level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6));
}

function nearest(red: number, green: number, blue: number): number {
  const most = Math.max(red, green, blue);
  if (most < 60) return 0;
  const bits = [red, green, blue].reduce(
    (sum, value, bit) => sum + (value > most / 2 ? 1 << bit : 0),
    0,
  );
  return bits + (most > 180 ? 8 : 0);
}
