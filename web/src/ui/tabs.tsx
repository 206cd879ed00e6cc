// A row of links to the views of one thing. On a narrow screen it scrolls to the current one.
import { type ReactNode, useRef } from "react";
import { usePath } from "../router";
import { useRevealCurrent } from "./reveal";

export function Tabs({ label, children }: { label: string; children: ReactNode }) {
  const row = useRef<HTMLElement>(null);
  useRevealCurrent(row, usePath());
  return (
    <nav className="tabs" aria-label={label} ref={row}>
      {children}
    </nav>
  );
}
