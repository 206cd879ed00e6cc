// The server's lifecycle tables for every component below, and their colours for the style sheet.
import { createContext, type ReactNode, useContext, useEffect, useMemo } from "react";
import { useRead } from "../api/hooks";
import type { Appearance, Lifecycle } from "../api/schema";
import { type Tables, tablesFrom } from "../lifecycles";
import { Loading, Trouble } from "./notes";

const Context = createContext<Tables | null>(null);

export function TablesProvider({ children }: { children: ReactNode }) {
  const answer = useRead("list_lifecycles", {}, { fixed: true });
  const tables = useMemo(() => (answer.data ? tablesFrom(answer.data) : null), [answer.data]);
  useEffect(() => {
    for (const [look, each] of Object.entries(tables?.appearances ?? {})) {
      document.documentElement.style.setProperty(`--${look}-ink`, each.ink);
      document.documentElement.style.setProperty(`--${look}-paper`, each.paper);
    }
  }, [tables]);
  if (answer.error) return <Trouble problem={answer.error} again={answer.refetch} />;
  if (!tables) return <Loading what="the lifecycles" />;
  return <Context.Provider value={tables}>{children}</Context.Provider>;
}

export function useTables(): Tables {
  const tables = useContext(Context);
  if (!tables) throw new Error("no tables above this component");
  return tables;
}

export function useTable(name: string): Lifecycle {
  const table = useTables().byName.get(name);
  if (!table) throw new Error(`the server has no lifecycle ${name}`);
  return table;
}

/** How a state of a lifecycle looks; one that the table does not have looks like an end. */
export function useLook(table: string, state: string): { look: string; appearance: Appearance } {
  const tables = useTables();
  const look = tables.byName.get(table)?.looks[state] ?? "ended";
  return { look, appearance: tables.appearances[look]! };
}
