// Scrolls the selected entry of a list into view. Not with scrollIntoView: browsers would then take
// the entry as the place from which the Tab key goes on, and skip the rest of the page.
import { type RefObject, useEffect } from "react";

/** The element with `data-scrolls` around the entry scrolls; without one, its parent does. */
export function useReveal(entry: RefObject<HTMLElement | null>, chosen: boolean): void {
  useEffect(() => {
    const list = entry.current?.closest("[data-scrolls]") ?? entry.current?.parentElement;
    if (!chosen || !entry.current || !list) return;
    const [shown, own] = [list.getBoundingClientRect(), entry.current.getBoundingClientRect()];
    if (own.top < shown.top) list.scrollTop -= shown.top - own.top;
    else if (own.bottom > shown.bottom) list.scrollTop += own.bottom - shown.bottom;
  }, [entry, chosen]);
}

/** Scrolls a row of links sideways so that the current one is in the middle, after each move. */
export function useRevealCurrent(row: RefObject<HTMLElement | null>, path: string): void {
  // biome-ignore lint/correctness/useExhaustiveDependencies: the path is what it reacts to
  useEffect(() => {
    const current = row.current?.querySelector<HTMLElement>("[aria-current]");
    if (!row.current || !current) return;
    const [shown, own] = [row.current.getBoundingClientRect(), current.getBoundingClientRect()];
    row.current.scrollLeft += own.left + own.width / 2 - (shown.left + shown.width / 2);
  }, [row, path]);
}
