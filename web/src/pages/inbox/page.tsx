// The start page: the items that wait for a person, the most urgent first, with their controls.
import { useEffect, useMemo, useRef, useState } from "react";
import type { InboxTask } from "../../api/schema";
import { go, Link, useSearch } from "../../router";
import { plural } from "../../text";
import { type KeyHelp, useKeys } from "../../ui/keys";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Title } from "../../ui/title";
import { filterFrom, groupingFrom, InboxFilters, peopleIn } from "./filters";
import { grouped } from "./groups";
import { Hints } from "./hints";
import { ItemList } from "./item_list";
import { type Waiting, waitingIn } from "./kinds";
import { Matter } from "./matter";
import { Selection } from "./selection";
import { inboxAddress, undoLast } from "./settling";
import { useWaiting, type WaitingItems } from "./waiting";

export function Inbox({ id }: { id?: string }) {
  const [search] = useSearch();
  const waiting = useWaiting(filterFrom(search));
  const { items, problem, again } = waiting;
  if (items) return <Matters waiting={{ ...waiting, items }} id={id} />;
  return problem ? <Trouble problem={problem} again={again} /> : <Loading what="the inbox" />;
}

const HELP: KeyHelp = [
  ["j k", "next item, previous item"],
  ["a", "accept the work"],
  ["r", "reject: go to the comment"],
  ["enter", "answer, retry or decide"],
  ["e", "edit and retry what failed"],
  ["m", "assign the item to me"],
  ["p", "assign the item to a person"],
  ["s", "snooze the item"],
  ["x", "select the item"],
  ["z", "undo the last decision"],
  ["f", "go to the filters"],
];

interface Props {
  waiting: WaitingItems & { items: Waiting[] };
  id: string | undefined;
}

function Matters({ waiting, id }: Props) {
  const [search] = useSearch();
  const all = useWaiting().items ?? waiting.items;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const grouping = groupingFrom(search);
  const groups = useMemo(() => grouped(waiting.items, grouping), [waiting.items, grouping]);
  const items = groups.flatMap((group) => group.items);
  const open = useOpenItem(items, id, waiting.again);
  const choose = (each: string) => {
    const next = new Set(chosen);
    if (!next.delete(each)) next.add(each);
    setChosen(next);
  };
  useInboxKeys(items, open, choose);
  // A narrow window shows the list, or the item of the address.
  const isItem = id === undefined ? undefined : true;
  return (
    <>
      <div className="title-row">
        <Title>Inbox</Title>
        <p className="faint">{countText(waiting, search.get("snoozed") !== null)}</p>
        {open && <Hints waiting={open} />}
      </div>
      <div className="title-row list-only" data-key="filters" data-item={isItem}>
        <InboxFilters all={all} snoozed={waiting.snoozed} />
      </div>
      <Selection
        tasks={tasksIn(items, chosen)}
        people={peopleIn(all)}
        onDone={() => setChosen(new Set())}
      />
      {open ? (
        <div className="inbox" data-item={isItem}>
          <Link className="all-items" to={`/${location.search}`}>
            All {plural(items.length, "item")}
          </Link>
          <ItemList groups={groups} open={open} chosen={chosen} onChoose={choose} />
          <Matter key={open.id} waiting={open} people={peopleIn(all)} />
        </div>
      ) : (
        <Nothing filtered={[...search.keys()].length > 0} />
      )}
    </>
  );
}

function countText({ count, items }: Props["waiting"], snoozed: boolean): string {
  if (!count) return "";
  if (snoozed) return `${plural(count, "item")} snoozed`;
  const waiting = `${plural(count, "item")} waiting`;
  if (items.length >= count) return `${waiting}, the most urgent first`;
  return `${waiting}, the ${items.length.toLocaleString("en")} most urgent are listed`;
}

function tasksIn(items: readonly Waiting[], chosen: ReadonlySet<string>): InboxTask[] {
  const found = items.filter((each) => chosen.has(each.id));
  return found.flatMap(({ about }) => ("task" in about ? [about.task] : []));
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) {
    return (
      <Empty title="No item matches the filters.">
        <p>Remove a filter.</p>
      </Empty>
    );
  }
  return (
    <Empty title="Nothing is waiting for you.">
      <p>
        Questions, reviews, exceeded budgets and failures appear here. The{" "}
        <Link to="/board">board</Link> has all tasks.
      </p>
      <Link className="button primary" to="/new">
        New task
      </Link>
    </Empty>
  );
}

// ---- the open item -----------------------------------------------------------------------------

/** The item of the address. When it is settled, the next one is opened. */
function useOpenItem(
  items: readonly Waiting[],
  id: string | undefined,
  again: WaitingItems["again"],
): Waiting | undefined {
  const place = useRef(0);
  const known = useRef<string>(undefined);
  const found = items.findIndex((each) => isOf(each, id));
  if (found >= 0) {
    place.current = found;
    known.current = id;
  }
  const open = items[found >= 0 ? found : Math.min(place.current, items.length - 1)];
  const next = open ? inboxAddress(open.id) : `/${location.search}`;
  const missing = id !== undefined && found < 0;
  // biome-ignore lint/correctness/useExhaustiveDependencies: `again` is written inline
  useEffect(() => {
    if (!missing) return;
    const leave = () => go(next, { replace: true });
    if (known.current === id) {
      leave();
      return;
    }
    // The list may be older than the item: the server knows whether it waits.
    let over = false;
    void again().then((inbox) => {
      if (!over && inbox && !waitingIn(inbox).some((each) => isOf(each, id))) leave();
    });
    return () => {
      over = true;
    };
  }, [id, missing, next]);
  return open;
}

/** Whether the id is that of the item, or of the job without a task that asks. */
function isOf({ id: own, about }: Waiting, id: string | undefined): boolean {
  return own === id || ("question" in about && about.question.job_id === id);
}

// ---- keys --------------------------------------------------------------------------------------

function useInboxKeys(
  items: readonly Waiting[],
  open: Waiting | undefined,
  choose: (id: string) => void,
): void {
  const move = (by: number) => {
    const at = items.findIndex((each) => each.id === open?.id);
    const next = items[Math.max(0, Math.min(items.length - 1, at + by))];
    if (next) go(inboxAddress(next.id), { replace: true });
  };
  useKeys(
    {
      j: () => move(1),
      k: () => move(-1),
      a: () => press("accept"),
      r: () => press("reject"),
      e: () => press("edit"),
      m: () => press("mine"),
      p: () => press("person"),
      s: () => press("snooze"),
      f: () => press("filters"),
      x: () => open && "task" in open.about && choose(open.id),
      z: undoLast,
      Enter: (event) => {
        if (event.target instanceof HTMLElement && event.target.closest("a, button")) return false;
        return press("main") || press("option", "focus");
      },
    },
    HELP,
  );
}

/** Go to the control that does this, or press it if that is enough. Returns whether it exists. */
function press(what: string, how?: "focus"): boolean {
  const marked = document.querySelector<HTMLElement>(`[data-key="${what}"]`);
  const control = marked?.matches("div") ? marked.querySelector<HTMLElement>("select") : marked;
  if (control instanceof HTMLButtonElement && how !== "focus") control.click();
  else control?.focus();
  return control != null;
}
