// The command palette: find a page, an action, a task by its title or id, or a job or run by its
// id, and open it.
import { type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from "react";
import { useRead } from "../api/hooks";
import type { Task } from "../api/schema";
import { go, linkTo } from "../router";
import { plain, shortId, words } from "../text";
import { type Entry, ranked } from "./palette_match";

const MAX_SHOWN = 12;
const MAX_TASKS = 8;
/** The beginning of an id as tables show it. */
const SHORTENED = /^(…|\.{3})/;
const NONE: Found = { entries: [], busy: false };

interface Props {
  /** Pages and actions. */
  entries: readonly Entry[];
  onClose: () => void;
}

export function Palette({ entries, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const typed = useDeferredValue(text.trim());
  const tasks = useTasks(typed);
  const pieces = useJobsAndRuns(typed);
  const all = [...entries, ...tasks.entries, ...pieces.entries];
  const found = ranked(all, typed).slice(0, MAX_SHOWN);
  const chosen = Math.min(at, found.length - 1);
  useEffect(() => dialog.current?.showModal(), []);
  const open = (entry: Entry | undefined) => {
    if (!entry) return;
    dialog.current?.close();
    entry.act();
  };
  const press = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((chosen + step + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") open(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} className="palette" aria-label="Command palette" onClose={onClose}>
      <input
        className="input"
        type="text"
        role="combobox"
        aria-label="Find a page, an action, a task, a job or a run"
        aria-expanded={found.length > 0}
        aria-controls="palette-list"
        aria-activedescendant={found.length ? `palette-${chosen}` : undefined}
        placeholder="Page, action, title or id"
        autoComplete="off"
        maxLength={200}
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <div id="palette-list" role="listbox" aria-label="Found">
        {found.map((entry, index) => (
          <div
            key={entry.key}
            id={`palette-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className="palette-entry"
            onMouseMove={() => setAt(index)}
            onClick={() => open(entry)}
            onKeyDown={press}
          >
            <span>{plain(entry.name)}</span>
            <span className="faint">
              {entry.note && `${plain(entry.note)} · `}
              {entry.kind}
            </span>
          </div>
        ))}
      </div>
      {!found.length && (
        <p className="faint">{tasks.busy || pieces.busy ? "Searching…" : "Nothing matches."}</p>
      )}
    </dialog>
  );
}

interface Found {
  entries: Entry[];
  /** Whether an answer is on its way. */
  busy: boolean;
}

/** Tasks whose title, id or intent contains the text. */
function useTasks(typed: string): Found {
  const enabled = typed.length > 1;
  const search = typed.replace(SHORTENED, "");
  const tasks = useRead("list_tasks", { search, limit: MAX_TASKS }, { enabled });
  if (!enabled) return NONE;
  // Until the answer is there, the tasks of the text before are shown if they match this one.
  const matches = (task: Task) =>
    !tasks.isPlaceholderData ||
    [task.title, task.id, task.intent].some((each) =>
      each?.toLowerCase().includes(search.toLowerCase()),
    );
  const entries = (tasks.data?.items ?? []).filter(matches).map((task) => ({
    key: `task ${task.id}`,
    name: task.title || task.intent,
    kind: "task",
    note: `${words(task.state)} · ${shortId(task.id)}`,
    isFound: true,
    act: () => go(linkTo.task(task.id)),
  }));
  return { entries, busy: tasks.isFetching };
}

/** Jobs and runs with this id, also if it is shortened to its first or last characters. */
function useJobsAndRuns(typed: string): Found {
  const kind = /-r\d+$/.test(typed) ? "run" : "job";
  const enabled = /-[jr]\d+$/.test(typed);
  const ids = useRead("find_ids", { part: typed.replace(SHORTENED, ""), kind }, { enabled });
  if (!enabled) return NONE;
  const items = ids.isPlaceholderData ? [] : (ids.data?.items ?? []);
  const entries = items.slice(0, MAX_TASKS).map((id) => ({
    key: `${kind} ${id}`,
    name: id,
    kind,
    isFound: true,
    act: () => go(linkTo[kind](id)),
  }));
  return { entries, busy: ids.isFetching };
}
