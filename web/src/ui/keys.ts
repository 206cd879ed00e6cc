// Single-letter keyboard shortcuts, which are off while the user types into a field.
import { useEffect, useRef, useSyncExternalStore } from "react";

/** What a key does. Returns false if the browser shall handle the key itself. */
export type Keys = Record<string, (event: KeyboardEvent) => unknown>;
/** A key and what it does, in words. */
export type KeyHelp = readonly (readonly [keys: string, does: string])[];

const NO_HELP: KeyHelp = [];
let known: readonly KeyHelp[] = [];
const watchers = new Set<() => void>();

function setKnown(next: readonly KeyHelp[]): void {
  known = next;
  for (const each of watchers) each();
}

/** The keys of the open page, for the list of keys. */
export function useKeyHelp(): KeyHelp {
  const lists = useSyncExternalStore(
    (watcher) => {
      watchers.add(watcher);
      return () => watchers.delete(watcher);
    },
    () => known,
  );
  return lists.flat();
}

/** Keys that move to another item: only these do so again and again while they are held. */
const MOVES: ReadonlySet<string> = new Set(["j", "k", "n", "p"]);

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement && target.type === "checkbox") return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

/** Handle keys while the component is shown; `help` says what they do in the list of keys.
 *
 * A key of the page comes before the same key of all pages (`everywhere`).
 */
export function useKeys(keys: Keys, help: KeyHelp = NO_HELP, everywhere = false): void {
  const current = useRef(keys);
  current.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.defaultPrevented) return;
      if (document.querySelector("dialog[open]")) return;
      const act = current.current[event.key];
      if (event.repeat && !MOVES.has(event.key)) {
        // A held key decides nothing about the next item, nor presses a button that has the focus.
        if (act) event.preventDefault();
        return;
      }
      // A key that moves the focus into a field must not be typed there.
      if (act && act(event) !== false) event.preventDefault();
    };
    addEventListener("keydown", press, !everywhere); // those that capture it are called first
    return () => removeEventListener("keydown", press, !everywhere);
  }, [everywhere]);
  useEffect(() => {
    if (!help.length) return;
    setKnown([...known, help]);
    return () => setKnown(known.filter((each) => each !== help));
  }, [help]);
}
