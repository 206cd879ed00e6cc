// Scrolls the selected entry of a list into view. Not with scrollIntoView: browsers would then take
// the entry as the place from which the Tab key goes on, and skip the rest of the page.
import { type RefObject, useEffect } from "react";

/** `within` names the element that scrolls; without it, the entry's parent does. */
export function useReveal(
  entry: RefObject<HTMLElement | null>,
  chosen: boolean,
  within?: string,
): void {
  useEffect(() => {
    const own = entry.current;
    const list = within ? own?.closest(within) : own?.parentElement;
    if (!chosen || !own || !list) return;
    const [shown, place] = [list.getBoundingClientRect(), own.getBoundingClientRect()];
    if (place.top < shown.top) list.scrollTop -= shown.top - place.top;
    else if (place.bottom > shown.bottom) list.scrollTop += place.bottom - shown.bottom;
  }, [entry, chosen, within]);
}
