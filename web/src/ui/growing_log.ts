// Hooks for the views of what a run writes: reading while it grows, search, and following the end.
import {
  type RefObject,
  type UIEventHandler,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import type { Problem } from "../api/call";

const POLL_MS = 500;
/** This close to the end, the reader follows it. */
const NEAR_END = 40;
/** A scroll this soon after a key, a wheel or a touch is the reader's. */
const OWN_SCROLL_MS = 1_000;

export interface Reading<T> {
  content: T;
  /** Counts what was read, so that React sees the change. */
  count: number;
  ended: boolean;
  problem: Problem | null;
}

/** Where reading continues; null after the end. */
export interface Next {
  next: number | null;
  /** Whether there is more already. */
  more: boolean;
}

/** Reads what a run writes to its end. `read` adds the part at a position to the content. */
export function useGrowing<T>(
  runId: string,
  begin: () => T,
  read: (content: T, from: number) => Promise<Next>,
): Reading<T> {
  const [reading, set] = useState<Reading<T>>(() => ({
    content: begin(),
    count: 0,
    ended: false,
    problem: null,
  }));
  // biome-ignore lint/correctness/useExhaustiveDependencies: both are written inline by callers
  useEffect(() => {
    let left = false;
    let timer: ReturnType<typeof setTimeout>;
    const content = begin();
    const step = async (from: number, count: number): Promise<void> => {
      try {
        const { next, more } = await read(content, from);
        if (left) return;
        set({ content, count, ended: next === null, problem: null });
        if (next !== null) timer = setTimeout(() => step(next, count + 1), more ? 0 : POLL_MS);
      } catch (problem) {
        if (left) return;
        set({ content, count, ended: false, problem: problem as Problem });
        timer = setTimeout(() => step(from, count + 1), 4 * POLL_MS);
      }
    };
    void step(0, 1);
    return () => {
      left = true;
      clearTimeout(timer);
    };
  }, [runId]);
  return reading;
}

export interface Search {
  wanted: string;
  /** The indexes of the rows that have the wanted text, and which of them is shown. */
  found: number[];
  at: number;
  change: (wanted: string) => void;
  move: (by: number) => void;
}

/** A search in the rows; `find` returns the indexes of those that have a text. */
export function useLogSearch(count: number, find: (wanted: string) => number[]): Search {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const wanted = useDeferredValue(typed);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the count says that there is more
  const found = useMemo(() => find(wanted), [count, wanted]);
  const change = (next: string) => {
    setTyped(next);
    setAt(0);
  };
  const move = (by: number) => {
    if (found.length) setAt((at + by + found.length) % found.length);
  };
  return { wanted, found, at: Math.min(at, Math.max(0, found.length - 1)), change, move };
}

interface Following {
  scroller: RefObject<HTMLDivElement | null>;
  follow: boolean;
  setFollow: (follow: boolean) => void;
  /** Both move the end. */
  count: number;
  height: number;
}

/** Keeps the end in view until the reader scrolls away from it. Returns handlers of the scroller. */
export function useFollowing({ scroller, follow, setFollow, count, height }: Following) {
  const moved = useRef(Number.NEGATIVE_INFINITY);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the end moves with count and height
  useEffect(() => {
    const box = scroller.current;
    if (follow && box) box.scrollTop = box.scrollHeight;
  }, [follow, count, height]);
  const own = () => {
    moved.current = performance.now();
  };
  const onScroll: UIEventHandler = () => {
    const box = scroller.current;
    if (!box || performance.now() - moved.current > OWN_SCROLL_MS) return;
    setFollow(box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END);
  };
  return { onWheel: own, onTouchMove: own, onPointerDown: own, onKeyDown: own, onScroll };
}
