// Shows the transcript of a run while it grows: messages, tool calls, edits, errors and costs.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { call, type Problem } from "../api/call";
import type { Run } from "../api/schema";
import { plural } from "../text";
import { matches, TranscriptRows } from "../transcript";
import { Trouble } from "./notes";
import { RunMark } from "./state";
import { TranscriptRow } from "./transcript_row";

const POLL_MS = 500;
const PAGE = 500;
const ROW_HEIGHT = 44;
/** This close to the end, the reader follows it. */
const NEAR_END = 40;
/** A scroll this soon after a key, a wheel or a touch is the reader's. */
const OWN_SCROLL_MS = 1_000;

interface Reading {
  rows: TranscriptRows;
  /** Counts what was read, so that React sees the change. */
  count: number;
  ended: boolean;
  problem: Problem | null;
}

/** Reads a run's transcript to its end, page by page. */
function useTranscript(runId: string): Reading {
  const [reading, set] = useState<Reading>(() => ({
    rows: new TranscriptRows(),
    count: 0,
    ended: false,
    problem: null,
  }));
  useEffect(() => {
    let left = false;
    let timer: ReturnType<typeof setTimeout>;
    const rows = new TranscriptRows();
    const read = async (after: number, count: number): Promise<void> => {
      try {
        const page = await call("run_transcript", { run_id: runId, after, limit: PAGE });
        if (left) return;
        rows.add(page.items);
        set({ rows, count, ended: page.next === null, problem: null });
        const next = page.next;
        if (next === null) return;
        timer = setTimeout(() => read(next, count + 1), next === after ? POLL_MS : 0);
      } catch (problem) {
        if (left) return;
        set({ rows, count, ended: false, problem: problem as Problem });
        timer = setTimeout(() => read(after, count + 1), 4 * POLL_MS);
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

interface Search {
  wanted: string;
  /** The indexes of the rows that have the wanted text, and which of them is shown. */
  found: number[];
  at: number;
  change: (wanted: string) => void;
  move: (by: number) => void;
}

function useSearchIn(rows: TranscriptRows, count: number): Search {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(typed);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the count says that there is more
  const found = useMemo(() => matches(rows.rows, wanted), [rows, count, wanted]);
  const change = (next: string) => {
    setTyped(next);
    setAt(0);
  };
  const move = (by: number) => {
    if (found.length) setAt((at + by + found.length) % found.length);
  };
  return { wanted, found, at: Math.min(at, Math.max(0, found.length - 1)), change, move };
}

export function Transcript({ run }: { run: Run }) {
  const { rows, count, ended, problem } = useTranscript(run.id);
  const search = useSearchIn(rows, count);
  const [follow, setFollow] = useState(run.state === "running" || run.state === "queued");
  const [wrap, setWrap] = useState(true);
  const current = search.found[search.at];
  return (
    <section aria-label="Transcript">
      <div className="row wrap output-head">
        <RunMark run={run} />
        <span className="faint" aria-live="polite">
          {plural(rows.rows.length + rows.dropped, "item")}
          {ended ? ", complete" : ", live"}
        </span>
        <SearchBox search={search} />
        <Check name="wrap lines" on={wrap} set={setWrap} />
        <Check name="scroll to the end" on={follow} set={setFollow} />
        <a href={`/api/runs/${encodeURIComponent(run.id)}/output/file`} download>
          Download raw
        </a>
      </div>
      {problem && <Trouble problem={problem} />}
      {rows.dropped > 0 && (
        <p className="faint">
          The beginning is not shown: {plural(rows.dropped, "item")}. Download the raw output to
          read it.
        </p>
      )}
      <Rows
        rows={rows}
        count={count}
        wanted={search.wanted}
        current={current}
        follow={follow}
        setFollow={setFollow}
        wrap={wrap}
        empty={ended ? "The run wrote no output." : "Nothing yet."}
      />
    </section>
  );
}

function Check({ name, on, set }: { name: string; on: boolean; set: (on: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={on} onChange={(event) => set(event.target.checked)} />
      {name}
    </label>
  );
}

function SearchBox({ search }: { search: Search }) {
  const { wanted, found, at, change, move } = search;
  return (
    <search className="row transcript-search">
      <input
        type="search"
        className="input small"
        placeholder="Search"
        aria-label="Search the transcript"
        onChange={(event) => change(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") move(event.shiftKey ? -1 : 1);
        }}
      />
      <span className="faint" role="status">
        {wanted && (found.length ? `${at + 1} of ${found.length}` : "not found")}
      </span>
      <Step name="Previous match" sign="↑" disabled={!found.length} press={() => move(-1)} />
      <Step name="Next match" sign="↓" disabled={!found.length} press={() => move(1)} />
    </search>
  );
}

interface StepProps {
  name: string;
  sign: string;
  disabled: boolean;
  press: () => void;
}

function Step({ name, sign, disabled, press }: StepProps) {
  return (
    <button
      type="button"
      className="button small"
      aria-label={name}
      title={name}
      disabled={disabled}
      onClick={press}
    >
      {sign}
    </button>
  );
}

interface RowsProps {
  rows: TranscriptRows;
  count: number;
  wanted: string;
  current: number | undefined;
  follow: boolean;
  setFollow: (follow: boolean) => void;
  wrap: boolean;
  empty: string;
}

function Rows(props: RowsProps) {
  const { rows, count, wanted, current, follow, setFollow, wrap, empty } = props;
  const [open, setOpen] = useState<ReadonlyMap<number, boolean>>(new Map());
  const scroller = useRef<HTMLDivElement>(null);
  const moved = useRef(Number.NEGATIVE_INFINITY);
  const all = rows.rows;
  const virtual = useVirtualizer({
    count: all.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (index) => all[index]!.item.number,
    overscan: 8,
  });
  const height = virtual.getTotalSize();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the end moves with count and height
  useEffect(() => {
    const box = scroller.current;
    if (follow && box) box.scrollTop = box.scrollHeight;
  }, [follow, count, height]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another match moves the reader
  useEffect(() => {
    if (current === undefined) return;
    setFollow(false);
    virtual.scrollToIndex(current, { align: "center" });
  }, [current, wanted]);
  const own = () => {
    moved.current = performance.now();
  };
  const scrolled = () => {
    const box = scroller.current;
    if (!box || performance.now() - moved.current > OWN_SCROLL_MS) return;
    setFollow(box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END);
  };
  const toggle = useCallback(
    (number: number, next: boolean) => {
      setFollow(false);
      setOpen((before) => new Map(before).set(number, next));
    },
    [setFollow],
  );
  return (
    <div
      className="transcript"
      data-wrap={wrap}
      ref={scroller}
      tabIndex={0}
      role="log"
      aria-label="Transcript of the run"
      aria-live="off"
      onWheel={own}
      onTouchMove={own}
      onPointerDown={own}
      onKeyDown={own}
      onScroll={scrolled}
    >
      {all.length === 0 && <p className="faint">{empty}</p>}
      <div className="virtual" style={{ height }}>
        {virtual.getVirtualItems().map((place) => {
          const row = all[place.index]!;
          return (
            <div
              key={place.key}
              ref={virtual.measureElement}
              data-index={place.index}
              className="transcript-place"
              style={{ transform: `translateY(${place.start}px)` }}
            >
              <TranscriptRow
                item={row.item}
                result={row.result}
                newTurn={row.item.turn !== all[place.index - 1]?.item.turn}
                wanted={wanted}
                current={place.index === current}
                open={open.get(row.item.number)}
                toggle={toggle}
              />
            </div>
          );
        })}
      </div>
    </div>
  );
}
