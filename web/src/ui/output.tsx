// Shows the output of a run while it grows: read by offset, with colours, without control codes.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { type Line, type Style, Terminal } from "../ansi";
import { call, type Problem } from "../api/call";
import type { Run } from "../api/schema";
import { plural } from "../text";
import { Trouble } from "./notes";
import { RunMark } from "./state";

const POLL_MS = 500;
const LINE_HEIGHT = 19;

interface Reading {
  terminal: Terminal;
  /** Counts what was read, so that React sees the change. */
  count: number;
  ended: boolean;
  problem: Problem | null;
}

/** Reads a run's output to its end, in chunks. */
function useOutput(runId: string): Reading {
  const [reading, set] = useState<Reading>(() => ({
    terminal: new Terminal(),
    count: 0,
    ended: false,
    problem: null,
  }));
  useEffect(() => {
    let left = false;
    let timer: ReturnType<typeof setTimeout>;
    const terminal = new Terminal();
    const read = async (offset: number, count: number): Promise<void> => {
      try {
        const piece = await call("run_output", { run_id: runId, offset });
        if (left) return;
        if (piece.text) terminal.write(piece.text);
        const whole = piece.ended && !piece.text;
        set({ terminal, count, ended: whole, problem: null });
        const wait = piece.text && piece.offset - offset > 100_000 ? 0 : POLL_MS;
        if (!whole) timer = setTimeout(() => read(piece.offset, count + 1), piece.ended ? 0 : wait);
      } catch (problem) {
        if (left) return;
        set({ terminal, count, ended: false, problem: problem as Problem });
        timer = setTimeout(() => read(offset, count + 1), 4 * POLL_MS);
      }
    };
    void read(0, 1);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [runId]);
  return reading;
}

interface Props {
  run: Pick<Run, "id" | "state" | "outcome">;
  /** The number of visible lines; without it, all lines. */
  most?: number;
}

export function RunOutput({ run, most }: Props) {
  const { terminal, count, ended, problem } = useOutput(run.id);
  const [follow, setFollow] = useState(true);
  const scroller = useRef<HTMLDivElement>(null);
  const lines = terminal.lines.length;
  const virtual = useVirtualizer({
    count: lines,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  // biome-ignore lint/correctness/useExhaustiveDependencies: the count says that there is more
  useEffect(() => {
    if (follow && lines) virtual.scrollToIndex(lines - 1, { align: "end" });
  }, [count, follow, lines]);
  return (
    <section aria-label="Output">
      <div className="row output-head">
        <RunMark run={run} />
        <span className="faint" aria-live="polite">
          {plural(lines + terminal.dropped, "line")}
          {ended ? ", complete" : ", live"}
        </span>
        {most === undefined && (
          <label className="check">
            <input
              type="checkbox"
              checked={follow}
              onChange={(event) => setFollow(event.target.checked)}
            />
            scroll to the end
          </label>
        )}
      </div>
      {problem && <Trouble problem={problem} />}
      <div
        className="output"
        style={{ height: (Math.min(Math.max(lines, 1), most ?? lines + 1) + 1) * LINE_HEIGHT }}
        ref={scroller}
        tabIndex={0}
        role="log"
        aria-label="Output of the run"
        aria-live="off"
      >
        {lines === 0 && (
          <p className="faint">{ended ? "The run wrote no output." : "Nothing yet."}</p>
        )}
        <div className="virtual" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => (
            <div
              key={item.key}
              className="line"
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <span className="line-number">{item.index + 1 + terminal.dropped}</span>
              <LineText line={terminal.lines[item.index]!} />
            </div>
          ))}
        </div>
      </div>
    </section>
  );
}

function LineText({ line }: { line: Line }) {
  return (
    <span className="line-text">
      {line.map((piece, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no other name
        <span key={at} className={classesOf(piece.style)}>
          {piece.text}
        </span>
      ))}
    </span>
  );
}

function classesOf(style: Style): string {
  const classes = [];
  if (style.ink !== undefined) classes.push(`ink-${style.ink}`);
  if (style.paper !== undefined) classes.push(`paper-${style.paper}`);
  for (const name of ["bold", "dim", "italic", "underline"] as const) {
    if (style[name]) classes.push(name);
  }
  return classes.join(" ");
}
