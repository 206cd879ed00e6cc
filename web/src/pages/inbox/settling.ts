// Calls that settle an inbox item. What ends an item is a decision: it is sent after a while and
// can be undone. What only starts the work again is sent immediately.
import { useState, useSyncExternalStore } from "react";
import { call, isUnreachable, type Name, type Problem, type Takes } from "../../api/call";
import { client, useVerb } from "../../api/hooks";
import { go } from "../../router";
import { plain } from "../../text";
import { say } from "../../ui/toast";
import { Decisions, type Known, UNDO_MS } from "./decisions";
import { titleOf } from "./kinds";

export const decisions = new Decisions(() => client.invalidateQueries());

/** Send what was decided before the page is gone: a closed tab loses nothing. */
export function sendOnLeaving(): () => void {
  const flush = () => void decisions.flush();
  const hide = () => {
    if (document.visibilityState === "hidden") flush();
  };
  addEventListener("pagehide", flush);
  document.addEventListener("visibilitychange", hide);
  return () => {
    removeEventListener("pagehide", flush);
    document.removeEventListener("visibilitychange", hide);
  };
}

export function useDecisions(): Known {
  return useSyncExternalStore(decisions.watch, decisions.look);
}

interface Settled {
  /** The id of the inbox item. */
  id: string;
  title: string;
  intent: string;
}

/** A decision about an item. */
export function useDecision<N extends Name>(name: N, word: string, what: Settled) {
  return (takes: Takes<N>) => decide(what, word, (leaving) => call(name, takes, leaving));
}

export function decide(
  what: Settled,
  word: string,
  send: (leaving: boolean) => Promise<unknown>,
): void {
  const title = plain(titleOf(what));
  const show = () => go(inboxAddress(what.id));
  const sent = async (leaving: boolean) => {
    await send(leaving);
    forgetDrafts(what.id);
  };
  decisions.decide(what.id, sent, (problem: Problem) =>
    say(`${isUnreachable(problem) ? "Not sent" : "Refused"}: ${title}. ${plain(problem.message)}`, {
      bad: true,
      action: { name: "Show", act: show },
    }),
  );
  say(`${word}: ${title}`, { forMs: UNDO_MS, action: { name: "Undo", key: "z", act: undo } });

  function undo(): void {
    if (decisions.undo(what.id)) {
      say(`Undone: ${title}`);
      show();
    } else say(`Already sent: ${title}`, { bad: true });
  }
}

/** Take the last decision back, and show its item. */
export function undoLast(): void {
  const id = decisions.last();
  if (id === null && decisions.anySent) say("Already sent: the last decision", { bad: true });
  if (id === null || !decisions.undo(id)) return;
  say("Undone");
  go(inboxAddress(id));
}

/** The address of an item; the filters of the inbox stay as they are. */
export function inboxAddress(id: string): string {
  const filters = /^\/(inbox\/.*)?$/.test(location.pathname) ? location.search : "";
  return `/inbox/${encodeURIComponent(id)}${filters}`;
}

/** What was typed, by the item and the question or round that it was typed for. */
const drafts = new Map<string, string>();

function forgetDrafts(id: string): void {
  for (const key of drafts.keys()) if (key.startsWith(`${id}:`)) drafts.delete(key);
}

/** The text for an item, which is still there when a decision is undone. `about` is the question or
 * the round: the text for one is never shown for another. */
export function useDraft(
  id: string,
  kind: "question" | "review",
  about: string,
): [string, (text: string) => void] {
  const key = `${id}:${kind}:${about}`;
  const [, render] = useState(0);
  const change = (next: string) => {
    drafts.set(key, next);
    render((times) => times + 1);
  };
  return [drafts.get(key) ?? "", change];
}

/** An action that is sent immediately. The outcome is shown even if the item has left the page: the
 * feed is often faster than the response. */
export function useSettling<N extends Name>(
  name: N,
  word: string,
  what: { title: string; intent: string },
) {
  return useVerb(name, {
    onSuccess: () => say(`${word}: ${plain(titleOf(what))}`),
    onError: (problem: Problem) => say(plain(problem.message), { bad: true }),
  });
}
