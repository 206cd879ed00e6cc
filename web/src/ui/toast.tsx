// A toast: reports the result of an action, also to screen readers, and disappears after a while.
import { useEffect, useSyncExternalStore } from "react";

export interface Shown {
  text: string;
  bad: boolean;
  key: number;
}

let shown: Shown | null = null;
let count = 0;
const watchers = new Set<() => void>();
const SHOWN_MS = 6_000;

export function say(text: string, how: { bad?: boolean } = {}): void {
  count += 1;
  shown = { text, bad: how.bad ?? false, key: count };
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
    const timer = setTimeout(silence, SHOWN_MS);
    return () => clearTimeout(timer);
  }, [current]);
  return (
    <div className="toasts" role="status" aria-live="polite">
      {current && <p className={`toast ${current.bad ? "bad" : ""}`}>{current.text}</p>}
    </div>
  );
}
