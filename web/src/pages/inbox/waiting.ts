// Everything that waits for a person, as the server's inbox has it, without what was decided here.
import { useMemo } from "react";
import type { Problem } from "../../api/call";
import { useFresh, useRead } from "../../api/hooks";
import type { Inbox } from "../../api/schema";
import type { InboxFilter } from "./filters";
import { type Waiting, waitingIn } from "./kinds";
import { useDecisions } from "./settling";

export interface WaitingItems {
  items: Waiting[] | undefined;
  /** The server's count, less the items whose decision is not sent yet. */
  count: number;
  /** The server's count; undefined until it is known. */
  total: number | undefined;
  snoozed: number;
  problem: Problem | null;
  /** Whether the items are those of the filter; otherwise those of the filter before. */
  fits: boolean;
  /** Whether the items fit and are not being read again. */
  settled: boolean;
  /** Read the inbox again. */
  again: () => Promise<Inbox | undefined>;
}

const EVERYTHING: InboxFilter = {};

export function useWaiting(filter: InboxFilter = EVERYTHING): WaitingItems {
  // No event announces a submission that was refused, nor the end of a snooze.
  const inbox = useRead("inbox", filter, { everyMs: 10_000 });
  // What a job alone asks begins and ends with its wait, or with the job.
  useFresh(["inbox"], (event) =>
    /^(task|subtask|budget|wait)_|^job_(cancelled|failed)$/.test(event.name),
  );
  const { hidden } = useDecisions();
  const all = useMemo(() => inbox.data && waitingIn(inbox.data), [inbox.data]);
  const items = useMemo(() => all?.filter((each) => !hidden.has(each.id)), [all, hidden]);
  const decided = (all?.length ?? 0) - (items?.length ?? 0);
  return {
    items,
    count: (inbox.data?.count ?? 0) - decided,
    total: inbox.data?.count,
    snoozed: inbox.data?.snoozed ?? 0,
    problem: inbox.error,
    fits: inbox.isSuccess && !inbox.isPlaceholderData,
    settled: inbox.isSuccess && !inbox.isPlaceholderData && !inbox.isFetching,
    again: async () => (await inbox.refetch()).data,
  };
}
