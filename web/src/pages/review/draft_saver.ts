// Saves a text while it is typed: shortly after a pause, one request at a time, the last text last.

export type Saved = { kind: "saved" } | { kind: "saving" } | { kind: "unsaved"; problem: Error };

const PAUSE_MS = 400;

/** It outlives its editor, which is removed while its file is folded. */
export class DraftSaver {
  state: Saved = { kind: "saved" };
  /** Whether the editor takes the focus when it is shown: at first, and if it had it before. */
  focused = true;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private waiting: string | null = null;
  private busy: Promise<void> | null = null;
  private readonly watchers = new Set<(state: Saved) => void>();

  constructor(
    /** What was typed last. */
    public text: string,
    private readonly send: (text: string) => Promise<unknown>,
  ) {}

  watch(watcher: (state: Saved) => void): () => void {
    this.watchers.add(watcher);
    watcher(this.state);
    return () => this.watchers.delete(watcher);
  }

  /** The text has changed. */
  type(text: string): void {
    this.text = text;
    this.waiting = text;
    this.report({ kind: "saving" });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.flush(), PAUSE_MS);
  }

  /** Send what is not saved yet. Resolves when nothing is in flight. */
  async flush(): Promise<void> {
    clearTimeout(this.timer);
    while (this.busy) await this.busy;
    if (this.waiting === null) return;
    const text = this.waiting;
    this.waiting = null;
    this.busy = this.send(text)
      .then(() => this.report({ kind: this.waiting === null ? "saved" : "saving" }))
      .catch((problem: Error) => {
        this.waiting ??= text;
        this.report({ kind: "unsaved", problem });
      })
      .finally(() => {
        this.busy = null;
      });
    await this.busy;
  }

  /** Forget what is not saved, and wait for a request that is under way. */
  async discard(): Promise<void> {
    clearTimeout(this.timer);
    this.waiting = null;
    await this.busy;
  }

  private report(state: Saved): void {
    this.state = state;
    for (const watcher of this.watchers) watcher(state);
  }
}

/** The savers of the open editors, by draft. */
export class DraftSavers {
  private readonly all = new Map<string, DraftSaver>();

  get(id: string, make: () => DraftSaver): DraftSaver {
    const saver = this.all.get(id) ?? make();
    this.all.set(id, saver);
    return saver;
  }

  forget(id: string): void {
    this.all.delete(id);
  }

  /** Save everything. Answers why something could not be saved, if so. */
  async flush(): Promise<Error | null> {
    const savers = [...this.all.values()];
    await Promise.all(savers.map((saver) => saver.flush()));
    for (const { state } of savers) if (state.kind === "unsaved") return state.problem;
    return null;
  }
}
