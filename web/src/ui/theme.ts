// The colour scheme: that of the system, unless the user has chosen another one in this browser.
import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark";
const KEY = "detent.theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const watchers = new Set<() => void>();

function chosen(): Theme | null {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : null;
}

function current(): Theme {
  return chosen() ?? (system.matches ? "dark" : "light");
}

export function applyTheme(): void {
  document.documentElement.dataset.theme = current();
  for (const each of watchers) each();
}

system.addEventListener("change", applyTheme);

export function useTheme(): [Theme, () => void] {
  const theme = useSyncExternalStore((watcher) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  }, current);
  return [
    theme,
    () => {
      localStorage.setItem(KEY, theme === "dark" ? "light" : "dark");
      applyTheme();
    },
  ];
}
