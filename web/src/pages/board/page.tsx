// The board: a column for each state of a task lifecycle; cards move when events arrive.
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { Problem } from "../../api/call";
import { useRead } from "../../api/hooks";
import type { Lifecycle } from "../../api/schema";
import { feed } from "../../live/feed";
import { Link, linkTo, useSearch } from "../../router";
import { plain, words } from "../../text";
import { Filters } from "../../ui/choice";
import { Command, Empty, Trouble } from "../../ui/notes";
import { StateMark } from "../../ui/state";
import { useLook, useTable } from "../../ui/tables";
import { When } from "../../ui/when";
import { type Card, Cards, type Filter, MAX_ENDED } from "./cards";

const FILTERS = ["project", "intent", "tag", "source", "priority"] as const;
const PRIORITIES = ["P0", "P1", "P2", "P3"];
/** Until a card has been measured: a title of one line. */
const CARD_HEIGHT = 78;

export default function Board() {
  const [search, change] = useSearch();
  const name = search.get("lifecycle") === "board" ? "board" : "review";
  const table = useTable(name);
  const filter: Filter = {};
  for (const key of FILTERS) {
    const value = search.get(key);
    if (value) filter[key] = value;
  }
  return (
    <>
      <div className="title-row">
        <h1>Board</h1>
        <div className="segments" role="group" aria-label="Lifecycle">
          {(["review", "board"] as const).map((each) => (
            <button
              key={each}
              type="button"
              aria-pressed={each === name}
              onClick={() => change({ lifecycle: each === "review" ? null : each })}
            >
              {each}
            </button>
          ))}
        </div>
        <Narrowing filter={filter} change={change} />
      </div>
      <Columns key={`${name} ${JSON.stringify(filter)}`} table={table} filter={filter} />
    </>
  );
}

type Change = (changes: Record<string, string | null>) => void;

function Narrowing({ filter, change }: { filter: Filter; change: Change }) {
  const projects = useRead("list_projects", {});
  const intents = useRead("list_intents", {});
  const choices: Partial<Record<keyof Filter, readonly string[] | undefined>> = {
    project: projects.data?.items.map((each) => each.name),
    intent: intents.data?.items.map((each) => each.name),
    priority: PRIORITIES,
  };
  return (
    <Filters fields={FILTERS.map((key) => ({ key, choices: choices[key] }))}>
      {FILTERS.some((key) => filter[key]) && (
        <button
          type="button"
          className="button small"
          onClick={() => change(Object.fromEntries(FILTERS.map((key) => [key, null])))}
        >
          Clear
        </button>
      )}
    </Filters>
  );
}

function Columns({ table, filter }: { table: Lifecycle; filter: Filter }) {
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new key above creates it again
  const cards = useMemo(() => new Cards(table, filter), []);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [round, setRound] = useState(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a round is a new attempt
  useEffect(() => {
    const leaving = new AbortController();
    // First listen, then load: what happens in between is in one of the two.
    const leave = feed.subscribe((events) => cards.take(events));
    setProblem(null);
    cards.load(leaving.signal).catch(setProblem);
    return () => {
      leaving.abort();
      leave();
    };
  }, [cards, round]);
  useGaps(() => setRound((count) => count + 1));
  const columns = useSyncExternalStore(cards.watch, cards.look);
  const count = [...columns.values()].reduce((sum, column) => sum + column.length, 0);
  if (problem) return <Trouble problem={problem} again={() => setRound(round + 1)} />;
  if (!count && !cards.loading) {
    return (
      <Empty title="No task matches the filters.">
        <p>Choose the other lifecycle, clear the filters, or submit a task:</p>
        <Command>detent submit runQA --project demo</Command>
      </Empty>
    );
  }
  return (
    <section className="board" aria-label="Tasks by state" aria-busy={cards.loading}>
      {table.states.map((state) => (
        <Column key={state} table={table} state={state} cards={columns.get(state) ?? []} />
      ))}
    </section>
  );
}

/** After a reconnect some events may be missing: load everything again. */
function useGaps(act: () => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(
    () =>
      feed.watch(() => {
        const status = feed.look();
        if (status.kind === "live" && status.regained) latest.current();
      }),
    [],
  );
}

interface ColumnProps {
  table: Lifecycle;
  state: string;
  cards: readonly Card[];
}

const Column = memo(function Column({ table, state, cards }: ColumnProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const { look } = useLook(table.name, state);
  const virtual = useVirtualizer({
    count: cards.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => CARD_HEIGHT,
    getItemKey: (at) => cards[at]!.id,
    overscan: 4,
  });
  const full = table.terminal.includes(state) && cards.length >= MAX_ENDED;
  return (
    <section className="column" data-state={state} data-look={look} aria-label={words(state)}>
      <h2>
        <StateMark table={table.name} state={state} quiet />
        <span className="count">
          {cards.length.toLocaleString("en")}
          {full && "+"}
        </span>
      </h2>
      <div
        className="column-cards"
        ref={scroller}
        tabIndex={0}
        role="group"
        aria-label={`${words(state)} cards`}
      >
        <div className="virtual" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => (
            <div
              key={item.key}
              ref={virtual.measureElement}
              data-index={item.index}
              className="slot"
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <CardLink card={cards[item.index]!} />
            </div>
          ))}
        </div>
      </div>
    </section>
  );
});

const CardLink = memo(function CardLink({ card }: { card: Card }) {
  return (
    <Link to={linkTo.task(card.id)} className="card">
      <span className="card-title">{plain(card.title)}</span>
      <span className="card-line">
        <span className="priority" data-priority={card.priority}>
          {card.priority}
        </span>
        <span className="cut">{plain(card.intent)}</span>
        {card.note && <span className="card-note">{words(card.note)}</span>}
      </span>
      <span className="card-line faint">
        <span className="cut">{plain(card.project)}</span>
        {card.tags.slice(0, 2).map((tag) => (
          <span key={tag} className="tag">
            {plain(tag)}
          </span>
        ))}
        <span className="age">
          <When at={card.since} brief />
        </span>
      </span>
    </Link>
  );
});
