// One changed file: its head with counts and marks, and its lines when it is open.
import {
  memo,
  startTransition,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { CommentPlace, DiffFile, ReviewHunk, ReviewLine } from "../../api/schema";
import { pathText, plural } from "../../text";
import { addressOf } from "../../ui/evidence";
import { Loading, Trouble } from "../../ui/notes";
import {
  blocks,
  changedSpans,
  type FoldRow,
  hasMixedEnds,
  type LineRow,
  type Row,
  splitRows,
  unifiedRows,
  withFolds,
  withoutSpaceChanges,
} from "./diff_rows";
import { factsOf } from "./file_facts";
import { type FileLines, type FileLoader, type Loaded, useLoaded } from "./file_loader";
import { highlight } from "./highlighter";
import { LINE_PX, Lines, NoteList } from "./lines";
import { below, isIn, lineKey, type Notes, openComments } from "./notes_of_file";
import { useReview } from "./review_context";
import type { Token } from "./tokens";

export interface View {
  split: boolean;
  hideSpace: boolean;
}

interface Props {
  file: DiffFile;
  index: number;
  loader: FileLoader;
  view: View;
  open: boolean;
  viewed: boolean;
  notes: Notes;
  selected: CommentPlace | null;
}

/** The height of a file's head. */
const HEAD_PX = 46;
/** How far from the window a file is prepared. */
const NEAR = "1200px 0px";

export const FileSection = memo(function FileSection(props: Props) {
  const { file, index, loader, open } = props;
  const section = useRef<HTMLElement>(null);
  const near = useNear(section);
  useEffect(() => {
    if (near && open && !file.binary) loader.want(file.path);
  }, [near, open, loader, file]);
  const height = HEAD_PX + (open ? Math.max(file.lines, 2) * LINE_PX : 0);
  return (
    <section
      ref={section}
      id={`file-${index}`}
      className="review-file"
      data-path={file.path}
      aria-label={pathText(file.path)}
      style={{ containIntrinsicBlockSize: `auto ${height}px` }}
    >
      <Head {...props} />
      {open && <Body {...props} near={near} />}
    </section>
  );
});

/** Whether an element has been near the window. */
function useNear(element: React.RefObject<HTMLElement | null>): boolean {
  const [near, setNear] = useState(false);
  useEffect(() => {
    const watch = new IntersectionObserver(
      (entries) => {
        // A busy page gets several together: that it was far away, and that it is near now.
        if (!entries.some((each) => each.isIntersecting)) return;
        setNear(true);
        watch.disconnect();
      },
      { rootMargin: NEAR },
    );
    if (element.current) watch.observe(element.current);
    return () => watch.disconnect();
  }, [element]);
  return near;
}

function Head({ file, open, viewed, notes }: Props) {
  const review = useReview();
  const unresolved = openComments(notes);
  const whole = { file: file.path, side: "after", start: 0, end: 0 } as const;
  return (
    <header className="file-head">
      <button
        type="button"
        className="fold-button"
        aria-expanded={open}
        aria-label={`${open ? "Fold" : "Unfold"} ${pathText(file.path)}`}
        onClick={() => review.setOpen(file.path, !open)}
      >
        <span aria-hidden="true">{open ? "▾" : "▸"}</span>
      </button>
      <h2 className="file-path">
        {file.old_path && file.old_path !== file.path && (
          <span className="faint">{pathText(file.old_path)} → </span>
        )}
        {pathText(file.path)}
      </h2>
      <span className="file-facts">
        {factsOf(file).map((fact) => (
          <span key={fact} className="tag">
            {fact}
          </span>
        ))}
        {unresolved > 0 && <span className="tag strong">{plural(unresolved, "open comment")}</span>}
        <Counts file={file} />
      </span>
      <button
        type="button"
        className="button small"
        onClick={() => review.comment(whole)}
        aria-label={`Comment on the file ${pathText(file.path)}`}
      >
        Comment
      </button>
      <label className="check">
        <input
          type="checkbox"
          checked={viewed}
          onChange={(event) => review.setViewed(file.path, event.target.checked)}
        />
        Viewed
      </label>
    </header>
  );
}

export function Counts({ file }: { file: DiffFile }) {
  return (
    <span className="counts">
      <span className="added-text">+{file.added.toLocaleString("en")}</span>{" "}
      <span className="removed-text">−{file.removed.toLocaleString("en")}</span>
    </span>
  );
}

function Body({ file, loader, view, notes, selected, near }: Props & { near: boolean }) {
  // The lines arrive in the background: keys and clicks come first.
  const loaded = useDeferredValue<Loaded>(useLoaded(loader, file.path), null);
  if (file.image && (file.image_before || file.image_after)) {
    return <Images file={file} notes={notes} />;
  }
  if (file.binary) return <Apart notes={notes} text="A binary file. Its content is not shown." />;
  if (!loaded) {
    return (
      <div className="file-waiting" style={{ blockSize: `${Math.max(file.lines, 2) * LINE_PX}px` }}>
        {near && <Loading what="the file" />}
      </div>
    );
  }
  if ("problem" in loaded) {
    return <Trouble problem={loaded.problem} again={() => loader.retry(file.path)} />;
  }
  return <Content {...{ path: file.path, file: loaded.file, view, notes, selected, near }} />;
}

/** An image before and after the change. */
function Images({ file, notes }: { file: DiffFile; notes: Notes }) {
  const shown = [
    ["Before", file.image_before],
    ["After", file.image_after],
  ] as const;
  return (
    <>
      <div className="images">
        {shown.map(([name, image]) => (
          <figure key={name}>
            <figcaption className="faint">{name}</figcaption>
            {image ? (
              <img src={addressOf(image)} alt={`${pathText(file.path)}, ${name.toLowerCase()}`} />
            ) : (
              <p>None.</p>
            )}
          </figure>
        ))}
      </div>
      <div className="file-notes">
        <NoteList notes={notes} />
      </div>
    </>
  );
}

/** A file without lines, with what was written about it. */
function Apart({ notes, text }: { notes: Notes; text: string }) {
  return (
    <>
      <p className="file-note faint">{text}</p>
      <div className="file-notes">
        <NoteList notes={notes} />
      </div>
    </>
  );
}

interface ContentProps {
  path: string;
  file: FileLines;
  view: View;
  notes: Notes;
  selected: CommentPlace | null;
  near: boolean;
}

const NO_NOTES = new Map<string, Notes>();

function Content({ path, file, view, notes, selected, near }: ContentProps) {
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const hunks = useMemo(
    () => (view.hideSpace ? withoutSpaceChanges(file.hunks) : file.hunks),
    [file, view.hideSpace],
  );
  const all = useMemo(
    () => (view.split ? splitRows(hunks) : unifiedRows(hunks)),
    [hunks, view.split],
  );
  const painting = usePainting(path, hunks, near);
  const { at, rest } = useMemo(() => below(notes, shownLines(all)), [notes, all]);
  const shown = useMemo(() => {
    const noted = [...notes.comments, ...notes.drafts].map((each) => each.place!);
    const places = selected ? [...noted, selected] : noted;
    const keep = (row: LineRow) => places.some((place) => isIn(place, row));
    return blocks(withFolds(all, opened, keep));
  }, [all, opened, notes, selected]);
  const unfold = (fold: FoldRow) => setOpened((before) => new Set(before).add(fold.key));
  if (!hunks.length) {
    const changed = file.hunks.length > 0;
    return (
      <Apart notes={notes} text={changed ? "Only white space differs." : "No lines changed."} />
    );
  }
  return (
    <>
      {(rest.comments.length > 0 || rest.drafts.length > 0) && (
        <div className="file-notes">
          <NoteList notes={rest} />
        </div>
      )}
      {shown.map((rows, index) => (
        <Lines
          key={rows[0]!.key}
          path={path}
          rows={rows}
          split={view.split}
          first={index === 0}
          painting={painting}
          notes={at.size && rows.some((row) => hasNotes(row, at)) ? at : NO_NOTES}
          selected={selected && rows.some((row) => isLineIn(row, selected)) ? selected : null}
          onUnfold={unfold}
        />
      ))}
      {file.base_changed && (
        <p className="file-note faint">
          The file had another base in that round: only lines that both diffs show are compared.
        </p>
      )}
      {file.truncated && (
        <p className="file-note faint">
          The file is longer than what can be shown here. Download changes.diff from the evidence.
        </p>
      )}
    </>
  );
}

const isLineIn = (row: Row, place: CommentPlace) => row.kind === "line" && isIn(place, row);

function hasNotes(row: Row, at: ReadonlyMap<string, Notes>): boolean {
  if (row.kind !== "line") return false;
  const { left, right } = row;
  return (
    (left?.before != null && at.has(lineKey("before", left.before))) ||
    (right?.after != null && at.has(lineKey("after", right.after)))
  );
}

function shownLines(rows: readonly Row[]): Set<string> {
  const found = new Set<string>();
  for (const row of rows) {
    if (row.kind !== "line") continue;
    if (row.left?.before != null) found.add(lineKey("before", row.left.before));
    if (row.right?.after != null) found.add(lineKey("after", row.right.after));
  }
  return found;
}

/** The colours of the lines, once the file is near the window and the highlighter has read it. */
function usePainting(path: string, hunks: readonly ReviewHunk[], near: boolean) {
  const [read, setRead] = useState<{
    hunks: typeof hunks;
    tokens: Map<ReviewLine, Token[]> | null;
  }>();
  const spans = useMemo(() => changedSpans(hunks), [hunks]);
  const mixedEnds = useMemo(() => hasMixedEnds(hunks), [hunks]);
  useEffect(() => {
    if (!near) return;
    let left = false;
    // Without colours the file can be read as well.
    highlight(path, hunks).then(
      (tokens) => !left && startTransition(() => setRead({ hunks, tokens })),
      () => undefined,
    );
    return () => {
      left = true;
    };
  }, [path, hunks, near]);
  const tokens = read?.hunks === hunks ? read.tokens : null;
  return useMemo(() => ({ tokens, spans, mixedEnds }), [tokens, spans, mixedEnds]);
}
