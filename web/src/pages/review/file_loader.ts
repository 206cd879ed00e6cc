// Loads the contents of the files of one diff, which never change: those in view first, then the
// rest, so that the browser's search finds every line.
import { useCallback, useSyncExternalStore } from "react";
import type { Problem } from "../../api/call";
import type { ReviewFile } from "../../api/schema";

/** The lines of a file, of a diff or between two diffs. */
export type FileLines = Pick<ReviewFile, "hunks" | "truncated"> & { base_changed?: boolean };

export type Loaded = { file: FileLines } | { problem: Problem } | null;

const MAX_REQUESTS = 4;

export class FileLoader {
  private readonly loaded = new Map<string, Loaded>();
  private readonly started = new Set<string>();
  private readonly watchers = new Map<string, Set<() => void>>();
  private urgent: string[] = [];
  private running = 0;
  private stopped = false;

  constructor(
    private readonly read: (path: string) => Promise<FileLines>,
    private readonly background: string[],
  ) {}

  /** Load files, also if none is in view yet. */
  start(): void {
    this.stopped = false;
    this.next();
  }

  /** Ask for no further file: the page that shows them is left. */
  stop(): void {
    this.stopped = true;
  }

  /** The file comes into view: load it before the others. */
  want(path: string): void {
    if (this.started.has(path)) return;
    this.urgent.push(path);
    this.next();
  }

  /** Load a file that failed to load again. */
  retry(path: string): void {
    this.started.delete(path);
    this.put(path, null);
    this.want(path);
  }

  look(path: string): Loaded {
    return this.loaded.get(path) ?? null;
  }

  watch(path: string, watcher: () => void): () => void {
    const all = this.watchers.get(path) ?? new Set();
    this.watchers.set(path, all.add(watcher));
    return () => all.delete(watcher);
  }

  private next(): void {
    while (!this.stopped && this.running < MAX_REQUESTS) {
      const path = this.take();
      if (path === undefined) return;
      this.started.add(path);
      this.running += 1;
      this.read(path)
        .then(
          (file) => this.put(path, { file }),
          (problem: Problem) => this.put(path, { problem }),
        )
        .finally(() => {
          this.running -= 1;
          this.next();
        });
    }
  }

  /** The next path: one in view, else one of the rest, of which only one is loaded at a time. */
  private take(): string | undefined {
    const isNew = (path: string) => !this.started.has(path);
    this.urgent = this.urgent.filter(isNew);
    const path = this.urgent.shift();
    if (path !== undefined || this.running > 0) return path;
    while (this.background.length) {
      const rest = this.background.shift()!;
      if (isNew(rest)) return rest;
    }
    return undefined;
  }

  private put(path: string, loaded: Loaded): void {
    this.loaded.set(path, loaded);
    for (const watcher of this.watchers.get(path) ?? []) watcher();
  }
}

export function useLoaded(loader: FileLoader, path: string): Loaded {
  return useSyncExternalStore(
    useCallback((watcher) => loader.watch(path, watcher), [loader, path]),
    () => loader.look(path),
  );
}
