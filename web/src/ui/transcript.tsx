// Shows the transcript of a run while it grows: messages, tool calls, edits, errors and costs.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useRef, useState } from "react";
import { call } from "../api/call";
import type { Run } from "../api/schema";
import { plural } from "../text";
import { matches, TranscriptRows } from "../transcript";
import { useFollowing, useGrowing, useLogSearch } from "./growing_log";
import { Check, DownloadRaw, LogHead, SearchBox } from "./log_head";
import { Trouble } from "./notes";
import { TranscriptRow } from "./transcript_row";

const PAGE = 500;
const ROW_HEIGHT = 44;

/** Reads the page of a run's transcript after an item. */
async function readPage(run_id: string, rows: TranscriptRows, after: number) {
  const page = await call("run_transcript", { run_id, after, limit: PAGE });
  rows.add(page.items);
  return { next: page.next, more: page.next !== after };
}

interface Props {
  run: Run;
  /** A short view has no controls, and shows the end first. */
  short?: boolean;
}

export function Transcript({ run, short = false }: Props) {
  const {
    content: rows,
    count,
    ended,
    problem,
  } = useGrowing(
    run.id,
    () => new TranscriptRows(),
    (content, after) => readPage(run.id, content, after),
  );
  const search = useLogSearch(count, (wanted) => matches(rows.rows, wanted));
  const grows = run.state === "running" || run.state === "queued";
  const [follow, setFollow] = useState(short || grows);
  const [wrap, setWrap] = useState(true);
  const current = search.found[search.at];
  return (
    <section aria-label="Transcript" className={short ? "short" : ""}>
      <LogHead run={run} amount={plural(rows.rows.length + rows.dropped, "item")} ended={ended}>
        {!short && (
          <>
            <SearchBox search={search} label="Search the transcript" />
            <Check name="wrap lines" on={wrap} set={setWrap} />
            <Check name="scroll to the end" on={follow} set={setFollow} />
            <DownloadRaw runId={run.id} />
          </>
        )}
      </LogHead>
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
  const all = rows.rows;
  const virtual = useVirtualizer({
    count: all.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_HEIGHT,
    getItemKey: (index) => all[index]!.item.number,
    overscan: 8,
  });
  const height = virtual.getTotalSize();
  const following = useFollowing({ scroller, follow, setFollow, count, height });
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another match moves the reader
  useEffect(() => {
    if (current === undefined) return;
    setFollow(false);
    virtual.scrollToIndex(current, { align: "center" });
  }, [current, wanted]);
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
      {...following}
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
