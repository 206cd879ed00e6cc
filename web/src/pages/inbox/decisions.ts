// Decisions that are sent a few seconds after the click, so that they can be undone until then.
// The items that they are about are hidden meanwhile.
import type { Problem } from "../../api/call";

/** How long a decision can be undone. */
export const UNDO_MS = 5_000;

/** Sends a decision; with `leaving` the request must outlive the page. */
type Send = (leaving: boolean) => Promise<unknown>;

interface Pending {
  send: Send;
  onProblem: (problem: Problem) => void;
  timer: ReturnType<typeof setTimeout>;
}

export interface Known {
  /** The items that are hidden: decided, and not yet gone from the server's inbox. */
  hidden: ReadonlySet<string>;
  /** Why the last decision about an item was refused. */
  problems: ReadonlyMap<string, Problem>;
}

export class Decisions {
  private readonly pending = new Map<string, Pending>();
  private readonly watchers = new Set<() => void>();
  private someSent = false;
  private known: Known = { hidden: new Set(), problems: new Map() };

  /** `refresh` reads the inbox again, so that the item is gone before it would be shown again. */
  constructor(private readonly refresh: () => Promise<unknown>) {}

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly look = (): Known => this.known;

  /** Decide about an item: it is hidden now, and the decision is sent later. */
  decide(id: string, send: Send, onProblem: (problem: Problem) => void): void {
    const timer = setTimeout(() => void this.settle(id, false), UNDO_MS);
    this.pending.set(id, { send, onProblem, timer });
    this.tell({ hidden: new Set([...this.known.hidden, id]), problems: without(this.known, id) });
  }

  /** Take a decision back, if it was not sent yet. Returns whether that was possible. */
  undo(id: string): boolean {
    const found = this.pending.get(id);
    if (!found) return false;
    clearTimeout(found.timer);
    this.pending.delete(id);
    this.show(id);
    return true;
  }

  /** The item of the last decision that can be undone. */
  last(): string | null {
    return [...this.pending.keys()].at(-1) ?? null;
  }

  /** Whether a decision was sent, which cannot be undone any more. */
  get anySent(): boolean {
    return this.someSent;
  }

  /** Send all decisions now: the page is left, or the session ends. */
  async flush(): Promise<void> {
    await Promise.all([...this.pending.keys()].map((id) => this.settle(id, true)));
  }

  private async settle(id: string, leaving: boolean): Promise<void> {
    const found = this.pending.get(id);
    if (!found) return;
    clearTimeout(found.timer);
    this.pending.delete(id);
    this.someSent = true;
    try {
      await found.send(leaving);
    } catch (problem) {
      this.tell({
        ...this.known,
        problems: new Map([...this.known.problems, [id, problem as Problem]]),
      });
      found.onProblem(problem as Problem);
    }
    await this.refresh();
    this.show(id);
  }

  private show(id: string): void {
    const hidden = new Set(this.known.hidden);
    hidden.delete(id);
    this.tell({ ...this.known, hidden });
  }

  private tell(known: Known): void {
    this.known = known;
    for (const each of this.watchers) each();
  }
}

function without(known: Known, id: string): Map<string, Problem> {
  return new Map([...known.problems].filter(([each]) => each !== id));
}
