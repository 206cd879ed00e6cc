// The cards of the board: loaded page by page, then updated by events.
import { call } from "../../api/call";
import type { Event, Lifecycle, Task } from "../../api/schema";
import { columnOf, nextState } from "../../lifecycles";

export interface Card {
  id: string;
  title: string;
  intent: string;
  source: string;
  priority: string;
  project: string;
  tags: string[];
  state: string;
  since: number;
  note: string;
}
export interface Filter {
  search?: string;
  project?: string;
  intent?: string;
  tag?: string;
  source?: string;
  priority?: string;
}
/** The cards by the title of their column. */
export type Columns = ReadonlyMap<string, readonly Card[]>;

const PAGE = 1_000;
/** Of states that are an end only the latest are shown. */
export const MAX_ENDED = 500;
const FLUSH_MS = 120;

function cardFrom(task: Task): Card {
  return {
    id: task.id,
    title: task.title || task.intent,
    intent: task.intent,
    source: task.source,
    priority: task.priority,
    project: task.project,
    tags: task.tags,
    state: task.state,
    since: Date.parse(task.state_at),
    note: task.blocked_by ?? "",
  };
}

/** The card of a task that an event has just created; null if it is of another lifecycle. */
function cardFromEvent(event: Event, table: Lifecycle): Card | null {
  const data = event.data as Record<string, unknown>;
  if (data.lifecycle !== table.id) return null;
  return {
    id: event.stream,
    title: String(data.title || data.intent),
    intent: String(data.intent),
    source: String(data.source),
    priority: String(data.priority),
    project: event.project,
    tags: Array.isArray(data.tags) ? data.tags.map(String) : [],
    state: table.initial,
    since: Date.parse(event.at),
    note: "",
  };
}

/** Whether the server's search would find the task. */
function contains({ id, title, intent }: Card, wanted: string): boolean {
  return [id, title, intent].some((text) => text.toLowerCase().includes(wanted));
}

export function fits(card: Card, filter: Filter): boolean {
  return (
    (!filter.project || card.project === filter.project) &&
    (!filter.intent || card.intent === filter.intent) &&
    (!filter.source || card.source === filter.source) &&
    (!filter.priority || card.priority === filter.priority) &&
    (!filter.tag || card.tags.includes(filter.tag)) &&
    (!filter.search || contains(card, filter.search.toLowerCase()))
  );
}

/** The states of a column. */
export function statesIn(table: Lifecycle, column: string): string[] {
  return table.states.filter((state) => columnOf(table, state) === column);
}

/** Whether what is in a column has ended. */
export function isEnd(table: Lifecycle, column: string): boolean {
  return statesIn(table, column).every((state) => table.terminal.includes(state));
}

/** Who has waited longest comes first; of what has ended, the latest. */
function order(table: Lifecycle, column: string): (a: Card, b: Card) => number {
  if (isEnd(table, column)) return (a, b) => b.since - a.since;
  return (a, b) => (a.priority < b.priority ? -1 : a.priority > b.priority ? 1 : a.since - b.since);
}

export class Cards {
  private readonly cards = new Map<string, Card>();
  private readonly stale = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly watchers = new Set<() => void>();
  private columns = new Map<string, readonly Card[]>();
  loading = true;

  private readonly columnByState: ReadonlyMap<string, string>;

  constructor(
    private readonly table: Lifecycle,
    private readonly filter: Filter,
  ) {
    this.columnByState = new Map(table.states.map((state) => [state, columnOf(table, state)]));
  }

  private column(card: Card): string {
    return this.columnByState.get(card.state) ?? card.state;
  }

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };
  readonly look = (): Columns => this.columns;

  /** Everything that is alive, and the latest of what has ended. */
  async load(signal: AbortSignal): Promise<void> {
    const { terminal, states, name, version } = this.table;
    const lifecycle = `${name}@${version}`;
    const before = new Map(this.cards);
    const ended = async (state: string) => {
      const page = await call("list_tasks", {
        ...this.filter,
        lifecycle,
        state,
        sort: "-state_at",
        limit: MAX_ENDED,
      } as never);
      this.add(page.items, signal);
    };
    const alive = async () => {
      const state = states.filter((each) => !terminal.includes(each)).join(",");
      let cursor: string | null = null;
      do {
        const page: { items: Task[]; cursor: string | null } = await call("list_tasks", {
          ...this.filter,
          lifecycle,
          state,
          sort: "-created_at",
          limit: PAGE,
          cursor: cursor ?? undefined,
        } as never);
        this.add(page.items, signal);
        cursor = page.cursor;
      } while (cursor && !signal.aborted);
    };
    await Promise.all([alive(), ...terminal.map(ended)]);
    if (signal.aborted) return;
    // What was neither read nor changed by an event is gone since the last time.
    for (const [id, card] of before) if (this.cards.get(id) === card) this.drop(card);
    this.loading = false;
    this.flush();
  }

  private add(tasks: readonly Task[], signal: AbortSignal): void {
    if (signal.aborted) return;
    for (const task of tasks) {
      const known = this.cards.get(task.id);
      // An event may have overtaken the page.
      if (known && known.since > Date.parse(task.state_at)) continue;
      this.put(cardFrom(task));
    }
  }

  take(events: readonly Event[]): void {
    for (const event of events) this.takeOne(event);
  }

  private takeOne(event: Event): void {
    const card = this.cards.get(event.stream);
    if (event.name === "task_migrated") this.migrate(event, card);
    else if (event.name === "task_created" && !card) {
      const made = cardFromEvent(event, this.table);
      if (made && fits(made, this.filter)) this.put(made);
    } else if (!card) return;
    else if (event.name === "task_deleted") this.drop(card);
    else if (event.name === "task_edited") this.edit(card, event);
    else {
      const state = nextState(this.table, card.state, event.name);
      if (state === null || state === card.state) return;
      const data = (event.data ?? {}) as { reason?: string };
      const note = event.name === "task_blocked" ? (data.reason ?? "") : "";
      this.put({ ...card, state, since: Date.parse(event.at), note });
    }
  }

  /** A task came from another version of its lifecycle, or went to one. */
  private migrate(event: Event, card: Card | undefined): void {
    const { lifecycle } = event.data as { lifecycle: string };
    if (card && lifecycle !== this.table.id) this.drop(card);
    if (card || lifecycle !== this.table.id) return;
    call("show_task", { task_id: event.stream }).then(
      (task) => {
        const made = cardFrom(task);
        if (task.lifecycle === this.table.id && fits(made, this.filter)) this.put(made);
      },
      () => undefined, // it is deleted, or another project's
    );
  }

  private edit(card: Card, event: Event): void {
    const { changes } = event.data as { changes: Partial<Card> };
    const next = { ...card };
    if (changes.title !== undefined) next.title = changes.title || card.intent;
    if (changes.priority !== undefined) next.priority = changes.priority;
    if (changes.tags !== undefined) next.tags = changes.tags;
    if (fits(next, this.filter)) this.put(next);
    else this.drop(card);
  }

  private put(card: Card): void {
    const before = this.cards.get(card.id);
    if (before) this.stale.add(this.column(before));
    this.cards.set(card.id, card);
    this.stale.add(this.column(card));
    this.timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  private drop(card: Card): void {
    this.cards.delete(card.id);
    this.stale.add(this.column(card));
    this.timer ??= setTimeout(() => this.flush(), FLUSH_MS);
  }

  /** Sort the columns that have changed, and publish all changes together. */
  flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const fresh = new Map<string, Card[]>([...this.stale].map((column) => [column, []]));
    for (const card of this.cards.values()) fresh.get(this.column(card))?.push(card);
    this.columns = new Map(this.columns);
    for (const [column, cards] of fresh) {
      this.columns.set(column, cards.sort(order(this.table, column)));
    }
    this.stale.clear();
    for (const watcher of this.watchers) watcher();
  }
}
