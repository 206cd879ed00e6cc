// Saves a text while it is typed: shortly after a pause, one request at a time, the last text last.

export type Saved = { kind: "saved" } | { kind: "saving" } | { kind: "unsaved"; problem: Error };

const PAUSE_MS = 400;

export class DraftSaver {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private waiting: string | null = null;
  private busy: Promise<void> | null = null;

  constructor(
    private readonly send: (text: string) => Promise<unknown>,
    private readonly report: (state: Saved) => void,
  ) {}

  /** The text has changed. */
  type(text: string): void {
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
}
