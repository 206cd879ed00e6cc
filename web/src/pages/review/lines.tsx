// The lines of a file as tables: unified, or before and after side by side.
import {
  type KeyboardEvent,
  type MouseEvent,
  memo,
  type ReactNode,
  useEffect,
  useRef,
} from "react";
import type { CommentPlace, ReviewLine } from "../../api/schema";
import { plain, plural } from "../../text";
import { say } from "../../ui/toast";
import type { FoldRow, LineRow, Row, Side, Span } from "./diff_rows";
import { DraftBox } from "./draft_box";
import { isIn, lineKey, type Notes, placeWords } from "./notes_of_file";
import { useReview } from "./review_context";
import { Thread } from "./thread";
import { pieces, type Token } from "./tokens";

export interface Painting {
  tokens: ReadonlyMap<ReviewLine, Token[]> | null;
  spans: ReadonlyMap<ReviewLine, Span>;
  /** Whether lines end differently, so that each CRLF is marked. */
  mixedEnds: boolean;
}

export interface LinesProps {
  path: string;
  rows: readonly Row[];
  split: boolean;
  /** The number of the first line can be reached with the Tab key; the others with arrows. */
  first: boolean;
  painting: Painting;
  notes: ReadonlyMap<string, Notes>;
  selected: CommentPlace | null;
  onUnfold: (fold: FoldRow) => void;
}

/** The height of a line, for blocks that are not laid out yet. */
export const LINE_PX = 20;

/** One block of lines. It renders again only if something in it has changed. */
export const Lines = memo(function Lines(props: LinesProps) {
  const { rows, split, first } = props;
  const reachable = first ? rows.find((row) => row.kind === "line") : undefined;
  return (
    <div
      className="lines-block"
      style={{ containIntrinsicBlockSize: `auto ${rows.length * LINE_PX}px` }}
    >
      <table className={split ? "lines split" : "lines"}>
        <colgroup>
          {split ? (
            <>
              <col className="col-number" />
              <col />
              <col className="col-number" />
              <col />
            </>
          ) : (
            <>
              <col className="col-number" />
              <col className="col-number" />
              <col />
            </>
          )}
        </colgroup>
        <tbody>{rows.map((row) => rowOf(row, props, row === reachable))}</tbody>
      </table>
    </div>
  );
});

function rowOf(row: Row, props: LinesProps, reachable: boolean): ReactNode {
  const columns = props.split ? 4 : 3;
  if (row.kind === "hunk") {
    return (
      <tr key={row.key} className="hunk">
        <td colSpan={columns}>{plain(row.text)}</td>
      </tr>
    );
  }
  if (row.kind === "fold") {
    return (
      <tr key={row.key} className="fold">
        <td colSpan={columns}>
          <button type="button" className="link-button" onClick={() => props.onUnfold(row)}>
            Show {plural(row.rows.length, "unchanged line")}
          </button>
        </td>
      </tr>
    );
  }
  const own = notesAt(props.notes, row, props.split);
  const ends = props.selected !== null && isEnd(props.selected, row);
  return [
    props.split ? splitLine(row, props, reachable) : unifiedLine(row, props, reachable),
    (own.length > 0 || ends) && (
      <tr key={`${row.key} notes`} className="notes">
        <td colSpan={columns}>
          {ends && <SelectionBar place={props.selected!} />}
          {own.map(([key, notes]) => (
            <NoteList key={key} notes={notes} />
          ))}
        </td>
      </tr>
    ),
  ];
}

function isEnd(place: CommentPlace, row: LineRow): boolean {
  return place.end === (place.side === "before" ? row.left?.before : row.right?.after);
}

/** The notes below a row, by the side and the line. */
function notesAt(
  notes: ReadonlyMap<string, Notes>,
  { left, right }: LineRow,
  split: boolean,
): [string, Notes][] {
  if (!notes.size) return [];
  const keys = [
    left?.before != null && (split || left.kind !== "added") && lineKey("before", left.before),
    right?.after != null && lineKey("after", right.after),
  ];
  return keys.flatMap((key): [string, Notes][] => {
    const found = key && notes.get(key);
    return found ? [[key, found]] : [];
  });
}

export function NoteList({ notes }: { notes: Notes }) {
  return (
    <>
      {notes.comments.map((comment) => (
        <Thread key={comment.id} comment={comment} />
      ))}
      {notes.drafts.map((draft) => (
        <DraftBox key={draft.id} draft={draft} />
      ))}
    </>
  );
}

/** The address names the selected lines. A browser allows this only on a secure connection. */
async function copyLink(): Promise<void> {
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link to these lines is copied.");
  } catch {
    say("The browser does not allow copying. Copy the address of the page.", { bad: true });
  }
}

function SelectionBar({ place }: { place: CommentPlace }) {
  const review = useReview();
  const bar = useRef<HTMLParagraphElement>(null);
  // The lines of a link are shown as soon as they are there.
  useEffect(() => {
    if (!review.arriving.current) return;
    review.arriving.current = false;
    bar.current?.closest("tr")?.scrollIntoView({ block: "center" });
  }, [review.arriving]);
  return (
    <p ref={bar} className="selection-bar row wrap">
      <button type="button" className="button small primary" onClick={() => review.comment(place)}>
        Comment on {placeWords(place)}
      </button>
      <kbd>c</kbd>
      {navigator.clipboard && (
        <button type="button" className="link-button" onClick={copyLink}>
          Copy link
        </button>
      )}
      <button type="button" className="link-button" onClick={review.unselect}>
        Cancel
      </button>
    </p>
  );
}

function unifiedLine(row: LineRow, props: LinesProps, reachable: boolean): ReactNode {
  const line = (row.right ?? row.left)!;
  const side: Side = line.kind === "removed" ? "before" : "after";
  const selected = props.selected !== null && isIn(props.selected, row);
  return (
    <tr key={row.key} data-kind={line.kind} data-selected={selected || undefined}>
      <td className="number">
        {side === "before" ? numberOf(line, side, props.path, reachable) : line.before}
      </td>
      <td className="number">
        {side === "after" ? numberOf(line, side, props.path, reachable) : null}
      </td>
      {codeOf(line, props.painting)}
    </tr>
  );
}

function splitLine(row: LineRow, props: LinesProps, reachable: boolean): ReactNode {
  const { left, right } = row;
  const { selected, path, painting } = props;
  const isSelected = (side: Side) =>
    (selected !== null && selected.side === side && isIn(selected, row)) || undefined;
  return (
    <tr key={row.key}>
      <td className="number" data-kind={left?.kind} data-selected={isSelected("before")}>
        {left && numberOf(left, "before", path, reachable)}
      </td>
      {left ? codeOf(left, painting, isSelected("before")) : <td className="nothing" />}
      <td className="number" data-kind={right?.kind} data-selected={isSelected("after")}>
        {right && numberOf(right, "after", path, reachable && !left)}
      </td>
      {right ? codeOf(right, painting, isSelected("after")) : <td className="nothing" />}
    </tr>
  );
}

const KIND_WORDS = { added: ", added", removed: ", removed", context: "" };

function numberOf(line: ReviewLine, side: Side, path: string, reachable: boolean): ReactNode {
  const number = side === "before" ? line.before : line.after;
  return (
    <LineNumber
      side={side}
      line={number!}
      path={path}
      kind={KIND_WORDS[line.kind] || (side === "before" ? ", before" : "")}
      reachable={reachable}
    />
  );
}

interface NumberProps {
  side: Side;
  line: number;
  path: string;
  kind: string;
  reachable: boolean;
}

function LineNumber({ side, line, path, kind, reachable }: NumberProps) {
  const review = useReview();
  if (!review.sides.includes(side)) return line;
  const pick = (event: MouseEvent) => review.select(path, side, line, event.shiftKey);
  const step = (event: KeyboardEvent<HTMLElement>) => {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const next = neighbour(event.currentTarget, by, event.shiftKey);
    if (!next) return;
    next.focus();
    const { side: there, line: number } = next.dataset;
    review.select(path, there as Side, Number(number), event.shiftKey);
  };
  return (
    <button
      type="button"
      className="line-number"
      data-side={side}
      data-line={line}
      tabIndex={reachable ? 0 : -1}
      aria-label={`Line ${line}${kind}`}
      onClick={pick}
      onKeyDown={step}
    >
      {line}
    </button>
  );
}

/** The number above or below. A selection that is extended stays on its side. */
function neighbour(from: HTMLElement, by: number, sameSide: boolean): HTMLElement | undefined {
  const split = from.closest("table")?.classList.contains("split");
  const side = sameSide || split ? `[data-side="${from.dataset.side}"]` : "";
  const all = from.closest("section")?.querySelectorAll<HTMLElement>(`.line-number${side}`) ?? [];
  const numbers = [...all];
  return numbers[numbers.indexOf(from) + by];
}

function codeOf(line: ReviewLine, painting: Painting, selected?: boolean): ReactNode {
  const ends = line.text.endsWith("\r");
  const text = ends ? line.text.slice(0, -1) : line.text;
  const tokens = painting.tokens?.get(line);
  const span = painting.spans.get(line) ?? null;
  return (
    <td className="code" data-kind={line.kind} data-selected={selected}>
      {tokens || span
        ? pieces(tokens ?? [[null, text]], span).map((piece, at) => pieceOf(piece, at))
        : plain(text)}
      {ends && painting.mixedEnds && <span className="line-end"> CRLF</span>}
      {line.no_newline && <span className="line-end"> no newline at the end of the file</span>}
    </td>
  );
}

function pieceOf({ kind, text, changed }: ReturnType<typeof pieces>[number], at: number) {
  const shown = plain(text.replace(/\r$/, ""));
  if (!kind && !changed) return shown;
  return (
    <span key={at} className={`${kind ?? ""}${changed ? " changed" : ""}`.trim()}>
      {shown}
    </span>
  );
}
