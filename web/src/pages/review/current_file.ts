// Which file the reader is at: the last one whose head has reached the top of the window.
import { useCallback, useEffect, useRef, useState } from "react";

/** How far below the top of the window a file counts as reached. */
const TOP_PX = 80;
/** What a reader does to scroll. */
const SCROLL_EVENTS = ["wheel", "touchmove", "pointerdown"] as const;
const SCROLL_KEYS = ["PageDown", "PageUp", "ArrowDown", "ArrowUp", "Home", "End", " "];

const sections = () => document.querySelectorAll<HTMLElement>("section.review-file");

function reached(): number {
  const all = sections();
  let [low, high] = [0, all.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (all[middle]!.getBoundingClientRect().top <= TOP_PX) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The index of the current file, and how to go to another. */
export function useCurrentFile(count: number): [number, (index: number) => void] {
  const [current, setCurrent] = useState(0);
  // The last files may be too short to reach the top: a file that was gone to stays the current
  // one until the reader scrolls.
  const gone = useRef(false);
  useEffect(() => {
    let frame = 0;
    const look = () => {
      frame = 0;
      if (!gone.current) setCurrent(reached());
    };
    const scroll = () => {
      frame ||= requestAnimationFrame(look);
    };
    const readerScrolls = () => {
      gone.current = false;
    };
    const press = (event: KeyboardEvent) => {
      if (SCROLL_KEYS.includes(event.key)) readerScrolls();
    };
    addEventListener("scroll", scroll, { passive: true });
    addEventListener("keydown", press);
    for (const name of SCROLL_EVENTS) addEventListener(name, readerScrolls, { passive: true });
    return () => {
      cancelAnimationFrame(frame);
      removeEventListener("scroll", scroll);
      removeEventListener("keydown", press);
      for (const name of SCROLL_EVENTS) removeEventListener(name, readerScrolls);
    };
  }, []);
  const goTo = useCallback(
    (index: number) => {
      const wanted = Math.max(0, Math.min(count - 1, index));
      const section = sections()[wanted];
      if (!section) return;
      gone.current = true;
      setCurrent(wanted);
      section.scrollIntoView({ block: "start" });
      section.querySelector<HTMLElement>(".fold-button")?.focus({ preventScroll: true });
    },
    [count],
  );
  return [Math.min(current, Math.max(0, count - 1)), goTo];
}
