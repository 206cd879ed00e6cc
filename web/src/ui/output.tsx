// Shows the output of a run while it grows: read by offset, with colours, without control codes.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import { type Line, type Style, Terminal } from "../ansi";
import { call } from "../api/call";
import type { Run } from "../api/schema";
import { linesWith, timedParts } from "../output";
import { plural } from "../text";
import { clockTime, exactUtc } from "../time";
import { useFollowing, useGrowing, useLogSearch } from "./growing_log";
import { Check, DownloadRaw, LogHead, SearchBox } from "./log_head";
import { Marked } from "./marked";
import { Trouble } from "./notes";

const LINE_HEIGHT = 19;
/** After a part of this size there is more to read already. */
const LARGE_PART = 100_000;

/** Reads the part of a run's output at an offset. */
async function readPart(run_id: string, terminal: Terminal, offset: number) {
  const part = await call("run_output", { run_id, offset });
  for (const { text, at } of timedParts(part)) terminal.write(text, at);
  const whole = part.ended && !part.text;
  return {
    next: whole ? null : part.offset,
    more: part.ended || part.offset - offset > LARGE_PART,
  };
}

interface Props {
  run: Pick<Run, "id" | "state" | "outcome">;
  /** The number of visible lines of a short view, which has no controls; without it, all lines. */
  most?: number;
}

export function RunOutput({ run, most }: Props) {
  const {
    content: terminal,
    count,
    ended,
    problem,
  } = useGrowing(
    run.id,
    () => new Terminal(),
    (content, offset) => readPart(run.id, content, offset),
  );
  const search = useLogSearch(count, (wanted) => linesWith(terminal.lines, wanted));
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(false);
  const [times, setTimes] = useState(false);
  return (
    <section aria-label="Output">
      <LogHead
        run={run}
        amount={plural(terminal.lines.length + terminal.dropped, "line")}
        ended={ended}
      >
        {most === undefined && (
          <>
            <SearchBox search={search} label="Search the output" />
            <Check name="wrap lines" on={wrap} set={setWrap} />
            <Check name="times" on={times} set={setTimes} />
            <Check name="scroll to the end" on={follow} set={setFollow} />
            <DownloadRaw runId={run.id} />
          </>
        )}
      </LogHead>
      {problem && <Trouble problem={problem} />}
      <Lines
        terminal={terminal}
        count={count}
        most={most}
        wanted={search.wanted}
        current={search.found[search.at]}
        follow={follow}
        setFollow={setFollow}
        wrap={wrap}
        times={times}
        empty={ended ? "The run wrote no output." : "Nothing yet."}
      />
    </section>
  );
}

interface LinesProps {
  terminal: Terminal;
  count: number;
  most: number | undefined;
  wanted: string;
  current: number | undefined;
  follow: boolean;
  setFollow: (follow: boolean) => void;
  wrap: boolean;
  times: boolean;
  empty: string;
}

function Lines(props: LinesProps) {
  const { terminal, count, most, wanted, current, follow, setFollow, wrap, times, empty } = props;
  const scroller = useRef<HTMLDivElement>(null);
  const lines = terminal.lines.length;
  const virtual = useVirtualizer({
    count: lines,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  const height = virtual.getTotalSize();
  const following = useFollowing({ scroller, follow, setFollow, count, height });
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another match moves the reader
  useEffect(() => {
    if (current === undefined) return;
    setFollow(false);
    virtual.scrollToIndex(current, { align: "center" });
  }, [current, wanted]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: wrapped lines have other heights
  useEffect(() => virtual.measure(), [wrap, times]);
  const shown = Math.min(Math.max(lines, 1), most ?? lines + 1) + 1;
  return (
    <div
      className="output"
      style={{ height: wrap ? undefined : shown * LINE_HEIGHT }}
      data-wrap={wrap}
      ref={scroller}
      tabIndex={0}
      role="log"
      aria-label="Output of the run"
      aria-live="off"
      {...following}
    >
      {lines === 0 && <p className="faint">{empty}</p>}
      <div className="virtual" style={{ height }}>
        {virtual.getVirtualItems().map((item) => (
          <div
            key={item.key}
            ref={wrap ? virtual.measureElement : undefined}
            data-index={item.index}
            data-current={item.index === current || undefined}
            className="line"
            style={{ transform: `translateY(${item.start}px)` }}
          >
            <span className="line-number">{item.index + 1 + terminal.dropped}</span>
            {times && <LineTime at={terminal.times[item.index] ?? null} />}
            <LineText line={terminal.lines[item.index]!} wanted={wanted} />
          </div>
        ))}
      </div>
    </div>
  );
}

function LineTime({ at }: { at: number | null }) {
  if (at === null) return <span className="line-time">unknown</span>;
  return (
    <time className="line-time" dateTime={new Date(at).toISOString()} title={exactUtc(at)}>
      {clockTime(at).replace(/[.,]\d+/, "")}
    </time>
  );
}

function LineText({ line, wanted }: { line: Line; wanted: string }) {
  return (
    <span className="line-text">
      {line.map((piece, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no other name
        <span key={at} className={classesOf(piece.style)}>
          <Marked text={piece.text} wanted={wanted} />
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
