// The title of a page: its heading, and the text of the browser tab.

import { useEffect } from "react";
import { plain } from "../text";

const PROGRAM = "detent";

let page = "";
let waiting = 0;

function show(): void {
  const count = waiting ? `(${waiting.toLocaleString("en")}) ` : "";
  document.title = count + (page ? `${page} · ${PROGRAM}` : PROGRAM);
}

interface Props {
  children: string;
  /** What the tab says instead, where the heading alone is not clear. */
  tab?: string;
}

export function Title({ children, tab = children }: Props) {
  useEffect(() => {
    page = plain(tab);
    show();
    return () => {
      page = "";
      show();
    };
  }, [tab]);
  return <h1>{plain(children)}</h1>;
}

/** Shows in the tab how many items wait in the inbox. */
export function useWaitingTitle(count: number): void {
  useEffect(() => {
    waiting = count;
    show();
  }, [count]);
}
