// How this browser shows diffs: side by side or unified, with or without changes of white space.
import { useCallback, useMemo, useState, useSyncExternalStore } from "react";
import type { View } from "./file_section";

const KEY = "detent.review";
const narrow = matchMedia("(max-width: 900px)");

function stored(): View {
  try {
    const { split, hideSpace } = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { split: split === true, hideSpace: hideSpace === true };
  } catch {
    return { split: false, hideSpace: false };
  }
}

function watch(watcher: () => void): () => void {
  narrow.addEventListener("change", watcher);
  return () => narrow.removeEventListener("change", watcher);
}

/** The view, how to change it, and whether there is room for two sides. */
export function useView(): [View, (changes: Partial<View>) => void, boolean] {
  const [chosen, setChosen] = useState(stored);
  const wide = useSyncExternalStore(watch, () => !narrow.matches);
  const change = useCallback((changes: Partial<View>) => {
    setChosen((before) => {
      const view = { ...before, ...changes };
      localStorage.setItem(KEY, JSON.stringify(view));
      return view;
    });
  }, []);
  const { split, hideSpace } = chosen;
  const view = useMemo(() => ({ split: split && wide, hideSpace }), [split, hideSpace, wide]);
  return [view, change, wide];
}
