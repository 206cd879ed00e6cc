// A toast: reports the result of an action, also to screen readers, and disappears after a while.
// It has a place of its own in the side bar, so that it never covers the controls of a page.
import { useEffect, useSyncExternalStore } from "react";

export interface ToastAction {
  name: string;
  /** The key that does the same. */
  key?: string;
  act: () => void;
}

interface How {
  bad?: boolean;
  action?: ToastAction;
  forMs?: number;
}

interface Shown extends How {
  text: string;
  count: number;
}

let shown: Shown | null = null;
let count = 0;
const watchers = new Set<() => void>();
const SHOWN_MS = 6_000;

export function say(text: string, how: How = {}): void {
  count += 1;
  shown = { ...how, text, count };
  for (const each of watchers) each();
}

function silence(): void {
  shown = null;
  for (const each of watchers) each();
}

export function Toast() {
  const current = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => shown,
  );
  useEffect(() => {
    if (!current) return;
    const timer = setTimeout(silence, current.forMs ?? SHOWN_MS);
    return () => clearTimeout(timer);
  }, [current]);
  const act = (action: ToastAction) => {
    silence();
    action.act();
  };
  return (
    <div className="toasts" role="status" aria-live="polite">
      {current && (
        <div className={`toast ${current.bad ? "bad" : ""}`}>
          <p>{current.text}</p>
          {current.action && (
            <button type="button" onClick={() => act(current.action!)}>
              {current.action.name}
              {current.action.key && <kbd>{current.action.key}</kbd>}
            </button>
          )}
        </div>
      )}
    </div>
  );
}
