// The board of any task lifecycle: columns of its states; cards move when events arrive.
import { useVirtualizer } from "@tanstack/react-virtual";
import { memo, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { Problem } from "../../api/call";
import { useRead } from "../../api/hooks";
import type { Counts, Lifecycle } from "../../api/schema";
import { columnOf, type Tables } from "../../lifecycles";
import { feed } from "../../live/feed";
import { Link, linkTo, useSearch } from "../../router";
import { plain, words } from "../../text";
import { Filters } from "../../ui/choice";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Shape, StateMark } from "../../ui/state";
import { useLook, useTables } from "../../ui/tables";
import { Title } from "../../ui/title";
import { When } from "../../ui/when";
import { type Card, Cards, type Filter, isEnd, MAX_ENDED, statesIn } from "./cards";

const FILTERS = ["search", "project", "intent", "tag", "source", "priority"] as const;
const PRIORITIES = ["P0", "P1", "P2", "P3"];
/** Until a card has been measured: a title of one line. */
const CARD_HEIGHT = 78;

export default function Board() {
  const [search, change] = useSearch();
  const tables = useTables();
  const counts = useRead("counts", {}).data?.lifecycles;
  // What is shown first stays, however the counts change.
  const [first, setFirst] = useState<string | null>(null);
  useEffect(() => {
    if (counts) setFirst((before) => before ?? firstOf(tables, counts));
  }, [tables, counts]);
  const table = tables.byId.get(search.get("lifecycle") ?? first ?? "");
  const filter: Filter = {};
  for (const key of FILTERS) {
    const value = search.get(key);
    if (value) filter[key] = value;
  }
  return (
    <>
      <div className="title-row">
        <Title>Board</Title>
        {table && (
          <select
            className="input small lifecycle-choice"
            aria-label="Lifecycle"
            title={plain(table.title)}
            value={table.id}
            onChange={(event) => change({ lifecycle: event.target.value })}
          >
            {offered(tables, counts ?? {}, table).map((each) => (
              <option key={each.id} value={each.id}>
                {nameOf(tables, each)}
              </option>
            ))}
          </select>
        )}
        <Narrowing />
      </div>
      {table ? (
        <Columns key={`${table.id} ${JSON.stringify(filter)}`} table={table} filter={filter} />
      ) : search.get("lifecycle") ? (
        <Empty title="There is no such lifecycle.">
          <Link to="/board">Open the usual board</Link>
        </Empty>
      ) : (
        <Loading what="the board" />
      )}
    </>
  );
}

type ByState = Counts["lifecycles"];

function live(counts: ByState, { id, terminal }: Lifecycle): number {
  const found = Object.entries(counts[id] ?? {}).filter(([state]) => !terminal.includes(state));
  return found.reduce((sum, [, count]) => sum + count, 0);
}

/** The lifecycle of submitted tasks; if it has none that are live, the one that has most. */
function firstOf(tables: Tables, counts: ByState): string {
  const all = [...tables.byId.values()].filter((each) => each.kind === "task");
  const usual = all.find((each) => each.id === tables.defaults.submit) ?? all[0]!;
  if (live(counts, usual)) return usual.id;
  return all.reduce((most, each) => (live(counts, each) > live(counts, most) ? each : most), usual)
    .id;
}

/** The newest version of each lifecycle, and older ones that have tasks. */
function offered(tables: Tables, counts: ByState, chosen: Lifecycle): Lifecycle[] {
  return tables
    .newest()
    .filter((each) => each.kind === "task")
    .flatMap(({ name, id }) =>
      tables
        .versions(name)
        .filter(
          (each) =>
            each.id === id ||
            each.id === chosen.id ||
            Object.values(counts[each.id] ?? {}).some((count) => count > 0),
        ),
    );
}

function nameOf(tables: Tables, { name, version }: Lifecycle): string {
  return tables.versions(name).length > 1 ? `${words(name)}, version ${version}` : words(name);
}

function Narrowing() {
  const projects = useRead("list_projects", {});
  const intents = useRead("list_intents", {});
  const choices: Partial<Record<keyof Filter, readonly string[] | undefined>> = {
    project: projects.data?.items.map((each) => each.name),
    intent: intents.data?.items.map((each) => each.name),
    priority: PRIORITIES,
  };
  return (
    <Filters
      fields={FILTERS.map((key) => ({
        key,
        name: key === "search" ? "title or id" : key,
        choices: choices[key],
      }))}
    />
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
    return FILTERS.some((key) => filter[key]) ? (
      <Empty title="No task matches the filters.">
        <p>Remove a filter, or choose another lifecycle.</p>
      </Empty>
    ) : (
      <Empty title={`There are no tasks of the lifecycle ${plain(table.id)} yet.`}>
        <p>Choose another lifecycle, or create a task.</p>
        <Link className="button primary" to="/new">
          New task
        </Link>
      </Empty>
    );
  }
  return (
    <section className="board" aria-label="Tasks by state" aria-busy={cards.loading}>
      {[...new Set(table.states.map((state) => columnOf(table, state)))].map((title) => (
        <Column key={title} table={table} title={title} cards={columns.get(title) ?? []} />
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
  title: string;
  cards: readonly Card[];
}

const Column = memo(function Column({ table, title, cards }: ColumnProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const states = statesIn(table, title);
  const { look, appearance } = useLook(table.id, states[0]!);
  const virtual = useVirtualizer({
    count: cards.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => CARD_HEIGHT,
    getItemKey: (at) => cards[at]!.id,
    overscan: 4,
  });
  const full = isEnd(table, title) && cards.length >= MAX_ENDED;
  return (
    <section
      className="column"
      data-state={states.join(" ")}
      data-look={look}
      aria-label={plain(title)}
    >
      <h2>
        <span
          className="state quiet"
          data-look={look}
          title={states.map((state) => table.meanings[state]).join("; ")}
        >
          <Shape name={appearance.shape} />
          {plain(title)}
        </span>
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
        aria-label={`${plain(title)} cards`}
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
              <CardLink
                card={cards[item.index]!}
                table={states.length > 1 ? table.id : undefined}
              />
            </div>
          ))}
        </div>
      </div>
    </section>
  );
});

interface CardProps {
  card: Card;
  /** Its lifecycle, if the column does not tell its state. */
  table: string | undefined;
}

const CardLink = memo(function CardLink({ card, table }: CardProps) {
  return (
    <Link to={linkTo.task(card.id)} className="card">
      <span className="card-title">{plain(card.title)}</span>
      <span className="card-line">
        <span className="priority" data-priority={card.priority}>
          {card.priority}
        </span>
        <span className="cut">{plain(card.intent)}</span>
        {card.note && <span className="card-note">{words(card.note)}</span>}
        {table && !card.note && (
          <span className="card-note">
            <StateMark table={table} state={card.state} quiet />
          </span>
        )}
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
