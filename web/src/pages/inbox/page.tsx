// The start page: the items that wait for a person, the most urgent first, with their controls.
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import type { InboxTask } from "../../api/schema";
import { go, Link, useSearch } from "../../router";
import { plural } from "../../text";
import { type KeyHelp, useKeys } from "../../ui/keys";
import { Empty, Loading, Trouble } from "../../ui/notes";
import { Title } from "../../ui/title";
import { filterFrom, groupingFrom, type InboxFilter, InboxFilters, peopleIn } from "./filters";
import { grouped } from "./groups";
import { Hints } from "./hints";
import { ItemList } from "./item_list";
import type { Waiting } from "./kinds";
import { Matter } from "./matter";
import { Selection } from "./selection";
import { inboxAddress, undoLast, useDecisions } from "./settling";
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
  const opened = useOpenItem(items, id, filterFrom(search));
  const { open } = opened;
  const choose = useCallback((each: string) => {
    setChosen((before) => {
      const next = new Set(before);
      if (!next.delete(each)) next.add(each);
      return next;
    });
  }, []);
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
      {open || isItem ? (
        <div className="inbox" data-item={isItem}>
          <Link className="all-items" to={`/${location.search}`}>
            All {plural(waiting.count, "item")}
          </Link>
          <ItemList groups={groups} openId={open?.id} chosen={chosen} onChoose={choose} />
          {open ? (
            <Matter key={open.id} waiting={open} people={peopleIn(all)} />
          ) : (
            <Absent {...opened} />
          )}
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

/** Instead of an item that is not shown, or not yet. */
function Absent({ reading, problem, again }: Opened) {
  if (problem) return <Trouble problem={problem} again={again} />;
  if (reading) return <Loading what="the item" />;
  return (
    <Empty title="This item is not in the inbox (any more).">
      <p>It was decided or snoozed, its work goes on, or there is no such item.</p>
    </Empty>
  );
}

// ---- the open item -----------------------------------------------------------------------------

interface Opened {
  open: Waiting | undefined;
  /** Whether the item of the address is still being looked for. */
  reading: boolean;
  problem: WaitingItems["problem"];
  again: WaitingItems["again"];
}

/** The item of the address, which need not be in the list. When it is settled, the next one is
 * opened. */
function useOpenItem(
  items: readonly Waiting[],
  id: string | undefined,
  filter: InboxFilter,
): Opened {
  const before = useRef<{ id?: string | undefined; item: string; place: number }>({
    item: "",
    place: 0,
  });
  const { hidden } = useDecisions();
  const place = items.findIndex((each) => isOf(each, id));
  const missing = id !== undefined && place < 0;
  // The list has the most urgent items of the filter, and may be older than the item.
  const alone = useWaiting(missing ? { item: id.replace(/:.*/, "") } : filter);
  const beyond = missing && alone.fits ? alone.items?.find((each) => isOf(each, id)) : undefined;
  const found = items[place] ?? beyond;
  const wasOpen = id === undefined || (missing && before.current.id === id);
  const next = items[Math.min(before.current.place, items.length - 1)];
  if (found) {
    before.current = { id, item: found.id, place: place < 0 ? before.current.place : place };
  }
  const settled = hidden.has(before.current.item) || alone.settled;
  const left = missing && !found && wasOpen && settled;
  const nextAddress = next ? inboxAddress(next.id) : `/${location.search}`;
  useEffect(() => {
    if (left) go(nextAddress, { replace: true });
  }, [left, nextAddress]);
  const { problem, again } = alone;
  return { open: found ?? (wasOpen ? next : undefined), reading: !alone.settled, problem, again };
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
