// The command palette: find a page, an action, or a task by its title or id, and open it.
import { type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from "react";
import { useRead } from "../api/hooks";
import { go, linkTo } from "../router";
import { plain, shortId, words } from "../text";
import { type Entry, ranked } from "./palette_match";

const MAX_SHOWN = 12;
const MAX_TASKS = 8;

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
  const found = [...ranked(entries, typed), ...tasks].slice(0, MAX_SHOWN);
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
        aria-label="Find a page, an action or a task"
        aria-expanded={found.length > 0}
        aria-controls="palette-list"
        aria-activedescendant={found.length ? `palette-${chosen}` : undefined}
        placeholder="Page, action, task title or id"
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
      {!found.length && <p className="faint">Nothing matches.</p>}
    </dialog>
  );
}

/** Tasks whose title, id or intent contains the text. */
function useTasks(typed: string): Entry[] {
  const tasks = useRead(
    "list_tasks",
    { search: typed, limit: MAX_TASKS },
    { enabled: typed.length > 1 },
  );
  if (typed.length < 2) return [];
  return (tasks.data?.items ?? []).map((task) => ({
    key: `task ${task.id}`,
    name: task.title || task.intent,
    kind: "task",
    note: `${words(task.state)} · ${shortId(task.id)}`,
    act: () => go(linkTo.task(task.id)),
  }));
}
