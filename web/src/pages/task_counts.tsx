// The number of tasks of each lifecycle: those that have not ended, and how the others ended.
import { useFresh, useRead } from "../api/hooks";
import type { Counts, Lifecycle } from "../api/schema";
import { isUnderReview } from "../lifecycles";
import { Link } from "../router";
import { plain } from "../text";
import { useTables } from "../ui/tables";

type IsIn = (table: Lifecycle, state: string) => boolean;

const COLUMNS: [string, IsIn][] = [
  ["Not ended", (table, state) => !(state in table.endings)],
  ["Blocked", (table, state) => table.phases[state] === "blocked"],
  ["Under review", isUnderReview],
  ["Done", (table, state) => table.endings[state] === "done"],
  ["Failed", (table, state) => table.endings[state] === "failed"],
  ["Cancelled", (table, state) => table.endings[state] === "cancelled"],
];

export function TaskCounts() {
  const counts = useRead("counts", {}).data?.lifecycles;
  useFresh(["counts"], (event) => event.name.startsWith("task_"), 3_000);
  const tables = [...useTables().byId.values()].filter((each) => each.kind === "task");
  if (!counts) return null;
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Tasks by lifecycle">
      <table className="list" aria-label="Tasks by lifecycle">
        <thead>
          <tr>
            <th scope="col">Lifecycle</th>
            {COLUMNS.map(([name]) => (
              <th key={name} scope="col" className="end">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {tables.map((table) => (
            <tr key={table.id}>
              <td>
                <Link to={`/board?lifecycle=${encodeURIComponent(table.id)}`}>
                  {plain(table.id)}
                </Link>
              </td>
              {COLUMNS.map(([name, isIn]) => (
                <td key={name} className="end">
                  {sum(counts, table, isIn).toLocaleString("en")}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function sum(counts: Counts["lifecycles"], table: Lifecycle, isIn: IsIn): number {
  const found = Object.entries(counts[table.id] ?? {}).filter(([state]) => isIn(table, state));
  return found.reduce((total, [, count]) => total + count, 0);
}
