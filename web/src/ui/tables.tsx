// The server's lifecycle tables for every component below, and their colours for the style sheet.
import { createContext, type ReactNode, useContext, useEffect, useMemo } from "react";
import { client, useFresh, useRead } from "../api/hooks";
import type { Appearance, Lifecycle } from "../api/schema";
import { Tables, unknownTable } from "../lifecycles";
import { Loading, Trouble } from "./notes";

const Context = createContext<Tables | null>(null);

export function TablesProvider({ children }: { children: ReactNode }) {
  const answer = useRead("list_lifecycles", {}, { fixed: true });
  const tables = useMemo(() => (answer.data ? new Tables(answer.data) : null), [answer.data]);
  useFresh(["list_lifecycles"], (event) => event.name.startsWith("lifecycle_"));
  useEffect(() => {
    for (const [look, each] of Object.entries(tables?.appearances ?? {})) {
      document.documentElement.style.setProperty(`--${look}-ink`, each.ink);
      document.documentElement.style.setProperty(`--${look}-paper`, each.paper);
    }
  }, [tables]);
  if (!tables) {
    if (answer.error) return <Trouble problem={answer.error} again={answer.refetch} />;
    return <Loading what="the lifecycles" />;
  }
  return <Context.Provider value={tables}>{children}</Context.Provider>;
}

export function useTables(): Tables {
  const tables = useContext(Context);
  if (!tables) throw new Error("no tables above this component");
  return tables;
}

/** The lifecycle with this id. One that was just installed is read; until then it has no states. */
export function useTable(id: string): Lifecycle {
  const table = useTables().byId.get(id);
  const missing = table === undefined;
  useEffect(() => {
    if (missing) void client.invalidateQueries({ queryKey: ["list_lifecycles"] });
  }, [missing]);
  return useMemo(() => table ?? unknownTable(id), [table, id]);
}

/** How a state of a lifecycle looks; one that the table does not have looks like an end. */
export function useLook(table: string, state: string): { look: string; appearance: Appearance } {
  const tables = useTables();
  const look = tables.byId.get(table)?.looks[state] ?? "ended";
  return { look, appearance: tables.appearances[look]! };
}
