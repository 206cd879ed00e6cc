// The diff of a review: its files with a tree beside them, its views, and its keys.
import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { call, Problem } from "../../api/call";
import { useRead } from "../../api/hooks";
import type { ChangedFile, DiffFile, Review, ReviewedDiff } from "../../api/schema";
import { useSearch } from "../../router";
import { bytes } from "../../text";
import { KeyList } from "../../ui/key_list";
import { useKeys } from "../../ui/keys";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { useCurrentFile } from "./current_file";
import type { Side } from "./diff_rows";
import { attempt } from "./draft_box";
import { foldedBecause } from "./file_facts";
import { FileLoader } from "./file_loader";
import { FileSection } from "./file_section";
import { inTreeOrder } from "./file_tree";
import { linesIn, lineText } from "./line_link";
import type { AllNotes } from "./notes";
import { inPageOrder, NO_NOTES, placeOf, type Selection, selectionOf } from "./notes_of_file";
import { Outdated } from "./outdated";
import { type ReviewActs, ReviewContext, ThreadsContext } from "./review_context";
import { REVIEW_KEYS } from "./review_keys";
import { Toolbar } from "./toolbar";
import { Tree } from "./tree";
import { useView } from "./view_settings";

interface Props {
  review: Review;
  diff: ReviewedDiff;
  notes: AllNotes;
  /** Show the diff that is under review now, or what is new in it since a diff. */
  onReload: (since?: string) => void;
}

/** The files to show: those of the diff, or those that changed since another diff. */
export function Changes(props: Props) {
  const { review, diff, onReload } = props;
  const [search] = useSearch();
  const since = review.earlier.some((each) => each.sha256 === search.get("since"))
    ? search.get("since")
    : null;
  const between = useRead(
    "review_between",
    { task_id: review.task_id, since: since ?? "" },
    { enabled: since !== null },
  );
  const changed = useMemo(
    () => between.data && diffFiles(between.data.files, diff),
    [between.data, diff],
  );
  if (diff.too_large) {
    return (
      <p className="notice">
        The diff has {bytes(diff.size)}, which is too much to show here.{" "}
        <a href={diff.download} download="changes.diff">
          Download it
        </a>
        .
      </p>
    );
  }
  if (!diff.files.length) return <Empty title="The work changed no file." />;
  if (since === null) return <Files {...props} files={diff.files} since={null} />;
  if (between.error) return <Trouble problem={between.error} again={between.refetch} />;
  const other = between.data?.since !== since || between.data.diff !== diff.sha256;
  if (!changed || (other && between.isFetching)) return <Loading what="what has changed" />;
  if (other) return <OtherDiff onShow={() => onReload(since)} />;
  return <Files key={since} {...props} files={changed} since={since} />;
}

/** The lines would be those of a diff that is not the one that is read and commented. */
function OtherDiff({ onShow }: { onShow: () => void }) {
  return (
    <div className="notice row wrap" role="status">
      <span className="grow">
        What has changed is known for the newest diff only, which is not the one that is shown.
      </span>
      <button type="button" className="button primary" onClick={onShow}>
        Show the newest diff
      </button>
    </div>
  );
}

/** What changed between two diffs, as files of the diff under review. */
function diffFiles(changed: readonly ChangedFile[], diff: ReviewedDiff): DiffFile[] {
  const known = new Map(diff.files.map((file) => [file.path, file]));
  return changed.map((file) => ({
    ...(known.get(file.path) ?? GONE),
    ...file,
    lines: file.added + file.removed + CONTEXT_LINES,
  }));
}

/** A guess at how many lines of context are shown with the changes of a file. */
const CONTEXT_LINES = 6;
/** A file that the diff under review no longer has. */
const GONE: Omit<DiffFile, keyof ChangedFile> = {
  status: "deleted",
  generated: false,
  generated_kind: null,
  old_mode: null,
  new_mode: null,
  image: false,
  image_before: null,
  image_after: null,
  lines: 0,
};

const FIRST = 6;
const isFoldedAtFirst = (file: DiffFile) => foldedBecause(file) !== null;

const BOTH: readonly Side[] = ["before", "after"];
/** Between two diffs, the lines before are not lines of the diff under review. */
const AFTER: readonly Side[] = ["after"];

interface FilesProps extends Props {
  files: readonly DiffFile[];
  since: string | null;
}

function Files({ review, diff, notes, files: unsorted, since }: FilesProps) {
  const { task_id } = review;
  const files = useMemo(() => inTreeOrder(unsorted), [unsorted]);
  // The first files are on the screen before the heads of the others are made.
  const shown = useDeferredValue(files, files.slice(0, FIRST));
  const loader = useLoader(task_id, diff.sha256, since, files);
  const [view, setView, wide] = useView();
  const [selection, setSelection, arriving] = useLinkedLines();
  const [folds, setFolds] = useState<ReadonlyMap<string, boolean>>(new Map());
  const [viewed, setViewed] = useViewed(review, diff.sha256);
  const [current, goTo] = useCurrentFile(shown.length);
  const isOpen = (file: DiffFile) =>
    folds.get(file.path) ?? !(viewed.has(file.path) || isFoldedAtFirst(file));
  const setOpen = useCallback(
    (path: string, open: boolean) => setFolds((before) => new Map(before).set(path, open)),
    [],
  );
  const [help, setHelp] = useState(false);
  const [target, move] = useComments(notes, files, loader, setOpen);
  const acts = useActs({
    task_id,
    diff: diff.sha256,
    since,
    notes,
    setSelection,
    arriving,
    setOpen,
    setViewed,
  });
  const threads = useMemo(() => ({ replies: notes.replies, target }), [notes.replies, target]);
  const selected = useMemo(() => (selection ? placeOf(selection) : null), [selection]);
  const goToFile = useCallback(
    (at: number) => {
      const file = files[at];
      if (file && arriving.current) setOpen(file.path, true);
      goTo(at);
    },
    [files, arriving, setOpen, goTo],
  );
  const goToPath = useGoToPath(files, shown.length === files.length, goToFile, arriving);
  useKeys(
    {
      j: () => goTo(current + 1),
      k: () => goTo(current - 1),
      n: () => move(1),
      p: () => move(-1),
      v: () => {
        const path = files[current]?.path;
        if (path !== undefined) acts.setViewed(path, !viewed.has(path));
      },
      c: (event) => {
        event.preventDefault();
        const place = focusedLine() ?? selected;
        const file = files[current]?.path;
        if (place) acts.comment(place);
        else if (file !== undefined) acts.comment({ file, side: "after", start: 0, end: 0 });
      },
      Escape: () => setSelection(null),
    },
    REVIEW_KEYS,
  );
  return (
    <ReviewContext value={acts}>
      <ThreadsContext value={threads}>
        <Toolbar {...{ review, since, view, setView, wide }} onHelp={() => setHelp(true)} />
        <div className="review-body">
          <Tree
            wide={wide}
            files={files}
            viewed={viewed}
            notes={notes.byFile}
            current={files[current]?.path ?? null}
            onGo={goToPath}
          />
          <div className="review-files">
            <Outdated notes={notes} />
            {shown.map((file, index) => (
              <FileSection
                key={file.path}
                file={file}
                index={index}
                loader={loader}
                view={view}
                open={isOpen(file)}
                viewed={viewed.has(file.path)}
                notes={notes.byFile.get(file.path) ?? NO_NOTES}
                selected={selected?.file === file.path ? selected : null}
              />
            ))}
            {!files.length && <p className="faint">No file has changed since that round.</p>}
          </div>
        </div>
        {help && <KeyList onClose={() => setHelp(false)} />}
      </ThreadsContext>
    </ReviewContext>
  );
}

/** The selected lines, which the address has, too, so that they have a link. */
function useLinkedLines() {
  const [search, change] = useSearch();
  const linked = linesIn(search.get("file"), search.get("line"));
  const [selection, setSelection] = useState(linked && selectionOf(linked));
  const arriving = useRef(linked !== null);
  const named = useRef(selection);
  useEffect(() => {
    if (named.current === selection) return;
    named.current = selection;
    const place = selection && placeOf(selection);
    change({ ...(place && { file: place.file }), line: lineText(place) });
  }, [selection, change]);
  return [selection, setSelection, arriving] as const;
}

/** The line whose number has the focus. */
function focusedLine() {
  const { activeElement } = document;
  if (!(activeElement instanceof HTMLElement) || !activeElement.matches(".line-number"))
    return null;
  if (activeElement.closest("[data-selected]")) return null;
  const file = activeElement.closest<HTMLElement>("[data-path]")!.dataset.path!;
  const line = Number(activeElement.dataset.line);
  return { file, side: activeElement.dataset.side as Side, start: line, end: line };
}

const NEWER_DIFF = new Problem(
  409,
  "diff_changed",
  "The task has a newer diff than the one that is shown.",
  "Show the current diff.",
);

function useLoader(
  task_id: string,
  diff: string,
  since: string | null,
  files: readonly DiffFile[],
): FileLoader {
  const loader = useMemo(() => {
    const read = async (path: string) => {
      if (!since) return call("review_file", { task_id, path, diff });
      const found = await call("review_between", { task_id, since, path });
      if (found.diff !== diff) throw NEWER_DIFF;
      return found;
    };
    const rest = files.filter((file) => !file.binary && !isFoldedAtFirst(file));
    return new FileLoader(
      read,
      rest.map((file) => file.path),
    );
  }, [task_id, diff, since, files]);
  useEffect(() => {
    loader.start();
    return () => loader.stop();
  }, [loader]);
  return loader;
}

/** The files that the caller has viewed in this diff, and how to mark one. */
function useViewed(
  review: Review,
  diff: string,
): [ReadonlySet<string>, (path: string, viewed: boolean) => void] {
  const [marks, setMarks] = useState<ReadonlyMap<string, boolean>>(new Map());
  const viewed = useMemo(() => {
    const found = new Set(review.viewed);
    for (const [path, mark] of marks) mark ? found.add(path) : found.delete(path);
    return found;
  }, [review.viewed, marks]);
  const { task_id } = review;
  const mark = useCallback(
    async (path: string, now: boolean) => {
      const set = (value: boolean) => setMarks((before) => new Map(before).set(path, value));
      set(now);
      const done = await attempt(() => call("mark_viewed", { task_id, diff, path, viewed: now }));
      if (!done) set(!now);
    },
    [task_id, diff],
  );
  return [viewed, mark];
}

/** The comment that the keys have gone to, and how to go to the next one. */
function useComments(
  notes: AllNotes,
  files: readonly DiffFile[],
  loader: FileLoader,
  setOpen: (path: string, open: boolean) => void,
): [string | null, (by: number) => void] {
  const [target, setTarget] = useState<string | null>(null);
  const order = inPageOrder(notes, files);
  const move = (by: number) => {
    if (!order.length) return;
    const at = target === null ? (by > 0 ? -1 : 0) : order.indexOf(target);
    const id = order[(at + by + order.length) % order.length]!;
    for (const [path, { comments }] of notes.byFile) {
      if (!comments.some((comment) => comment.id === id)) continue;
      setOpen(path, true);
      loader.want(path);
    }
    setTarget(id);
    document.querySelector<HTMLElement>(`[data-thread="${CSS.escape(id)}"]`)?.focus();
  };
  return [target, move];
}

/** Goes to a file and names it in the address, so that it has a link; at first, to that file. */
function useGoToPath(
  files: readonly DiffFile[],
  ready: boolean,
  goTo: (index: number) => void,
  arriving: React.RefObject<boolean>,
) {
  const [search, change] = useSearch();
  const wanted = useRef(search.get("file"));
  useEffect(() => {
    if (!ready) return;
    const at = files.findIndex((file) => file.path === wanted.current);
    wanted.current = null;
    if (at >= 0) goTo(at);
  }, [files, ready, goTo]);
  return useCallback(
    (path: string) => {
      arriving.current = false; // the reader goes elsewhere than to the lines of the link
      change({ file: path, line: null });
      goTo(files.findIndex((file) => file.path === path));
    },
    [files, goTo, change, arriving],
  );
}

interface ActsProps {
  task_id: string;
  diff: string;
  since: string | null;
  notes: AllNotes;
  setSelection: React.Dispatch<React.SetStateAction<Selection | null>>;
  arriving: React.RefObject<boolean>;
  setOpen: (path: string, open: boolean) => void;
  setViewed: (path: string, viewed: boolean) => void;
}

/** What the parts of the page can do. It stays the same while the diff does: thousands of lines
 * depend on it. */
function useActs(props: ActsProps): ReviewActs {
  const { task_id, diff, since, setSelection, arriving, setOpen, setViewed } = props;
  const { openDraft, openReply, editDraft, closeDraft, savers, keepText, refresh } = props.notes;
  return useMemo(
    () => ({
      taskId: task_id,
      diff,
      sides: since ? AFTER : BOTH,
      select: (file, side, line, extend) => {
        arriving.current = false;
        setSelection((before) =>
          extend && before?.file === file && before.side === side
            ? { ...before, to: line }
            : { file, side, from: line, to: line },
        );
      },
      unselect: () => setSelection(null),
      arriving,
      comment: (place) => {
        setSelection(null);
        setOpen(place.file, true);
        openDraft(place);
      },
      setOpen,
      // A file that was viewed is folded, and opened when the mark is removed.
      setViewed: (path, viewed) => {
        setOpen(path, !viewed);
        setViewed(path, viewed);
      },
      editDraft,
      closeDraft,
      savers,
      keepText,
      refresh,
      reply: openReply,
    }),
    [
      task_id,
      diff,
      since,
      setSelection,
      arriving,
      setOpen,
      setViewed,
      openDraft,
      openReply,
      editDraft,
      closeDraft,
      savers,
      keepText,
      refresh,
    ],
  );
}
