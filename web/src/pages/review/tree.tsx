// The tree of the changed files: counts of lines and comments, marks of what was viewed, a filter.
import { memo, useDeferredValue, useMemo, useRef, useState } from "react";
import type { DiffFile } from "../../api/schema";
import { pathText, plural } from "../../text";
import { useReveal } from "../../ui/reveal";
import { type Directory, type Entry, fileTree, matching } from "./file_tree";
import { type Notes, openComments } from "./notes_of_file";

interface Props {
  /** Whether there is room for the tree beside the files. */
  wide: boolean;
  files: readonly DiffFile[];
  viewed: ReadonlySet<string>;
  notes: ReadonlyMap<string, Notes>;
  current: string | null;
  onGo: (path: string) => void;
}

const NOTHING: Entry[] = [];

export const Tree = memo(function Tree(props: Props) {
  const { files, viewed, wide } = props;
  const [text, setText] = useState("");
  const found = useMemo(() => matching(files, text), [files, text]);
  const entries = useDeferredValue(
    useMemo(() => fileTree(found), [found]),
    NOTHING,
  );
  const seen = files.filter((file) => viewed.has(file.path)).length;
  return (
    <nav aria-label="Changed files">
      <details key={String(wide)} className="tree-fold" data-scrolls open={wide}>
        <summary>{plural(files.length, "file")}</summary>
        <input
          type="search"
          className="input"
          aria-label="Filter files by name"
          placeholder="Filter files"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <p className="faint tree-count" role="status">
          {text
            ? `${found.length} of ${plural(files.length, "file")}`
            : plural(files.length, "file")}
          , {seen} viewed
        </p>
        <ul className="tree-entries">
          {entries.map((entry) => (
            <Branch key={keyOf(entry)} entry={entry} {...props} />
          ))}
        </ul>
      </details>
    </nav>
  );
});

const keyOf = (entry: Entry) => (entry.kind === "file" ? entry.file.path : `${entry.path}/`);

function Branch({ entry, ...props }: Props & { entry: Entry }) {
  if (entry.kind === "file") {
    const { path } = entry.file;
    return (
      <Item
        name={entry.name}
        file={entry.file}
        viewed={props.viewed.has(path)}
        comments={openComments(props.notes.get(path))}
        current={props.current === path}
        onGo={props.onGo}
      />
    );
  }
  return <Folder entry={entry} {...props} />;
}

function Folder({ entry, ...props }: Props & { entry: Directory }) {
  const [open, setOpen] = useState(true);
  return (
    <li>
      <button
        type="button"
        className="tree-folder"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <span aria-hidden="true">{open ? "▾" : "▸"}</span>
        <span className="tree-name">{pathText(entry.name)}</span>
      </button>
      {open && (
        <ul>
          {entry.entries.map((each) => (
            <Branch key={keyOf(each)} entry={each} {...props} />
          ))}
        </ul>
      )}
    </li>
  );
}

interface ItemProps {
  name: string;
  file: DiffFile;
  viewed: boolean;
  comments: number;
  current: boolean;
  onGo: (path: string) => void;
}

const Item = memo(function Item({ name, file, viewed, comments, current, onGo }: ItemProps) {
  const item = useRef<HTMLLIElement>(null);
  useReveal(item, current);
  return (
    <li ref={item}>
      <a
        className="tree-file"
        href={`?file=${encodeURIComponent(file.path)}`}
        data-viewed={viewed || undefined}
        data-status={file.status}
        aria-current={current ? "true" : undefined}
        onClick={(event) => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          onGo(file.path);
        }}
      >
        <span className="tree-name">{pathText(name)}</span>
        {comments > 0 && (
          <span className="tree-comments">
            {comments}
            <span className="unseen"> open {comments === 1 ? "comment" : "comments"}</span>
          </span>
        )}
        <span className="tree-lines">
          <span className="added-text">+{file.added}</span>{" "}
          <span className="removed-text">−{file.removed}</span>
        </span>
        <span className="tree-viewed" aria-hidden="true">
          {viewed ? "✓" : ""}
        </span>
        {viewed && <span className="unseen">viewed</span>}
      </a>
    </li>
  );
});
