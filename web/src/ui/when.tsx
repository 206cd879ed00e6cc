// Shows a time relative to now; the tooltip has the local time and the exact time in UTC.
import { useSyncExternalStore } from "react";
import { coarse, duration, exactUtc, inZone, relative } from "../time";

let now = Date.now();
const watchers = new Set<() => void>();
let ticking: ReturnType<typeof setInterval> | undefined;

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  if (ticking === undefined) {
    now = Date.now();
    ticking = setInterval(() => {
      now = Date.now();
      for (const each of watchers) each();
    }, 1_000);
  }
  return () => {
    watchers.delete(watcher);
    if (!watchers.size) {
      clearInterval(ticking);
      ticking = undefined;
    }
  };
}

/** The current time, updated every second while the page is visible. */
export function useNow(): number {
  return useSyncExternalStore(watch, () => now);
}

interface Props {
  at: string | number;
  /** The time itself, in the viewer's zone. */
  exact?: boolean;
  /** Only how long, where it is plain that it is past. */
  brief?: boolean;
}

export function When({ at, exact = false, brief = false }: Props) {
  const time = typeof at === "number" ? at : Date.parse(at);
  // Its text and not the current time: a list can have a thousand, and few change in a second.
  const words = useSyncExternalStore(watch, () =>
    exact ? inZone(time) : brief ? coarse(Math.max(0, now - time)) : relative(time, now),
  );
  return (
    <time dateTime={new Date(time).toISOString()} title={`${inZone(time)}\n${exactUtc(time)}`}>
      {words}
    </time>
  );
}

/** How long something took, or has been taking. */
export function Took({ from, to }: { from: string | null; to: string | null }) {
  const current = useNow();
  if (!from) return <span className="faint">not started</span>;
  return <span>{duration((to ? Date.parse(to) : current) - Date.parse(from))}</span>;
}
