// The five lifecycles as diagrams and tables, with extensions marked and counts per state.
import { useFresh, useRead } from "../api/hooks";
import { Link } from "../router";
import { words } from "../text";
import { Diagram } from "../ui/diagram";
import { Empty } from "../ui/notes";
import { StateMark } from "../ui/state";
import { useTables } from "../ui/tables";

export default function Lifecycles({ name }: { name?: string }) {
  const tables = useTables();
  const counts = useRead("counts", {}, { everyMs: 10_000 });
  useFresh(["counts"], () => true, 2_000);
  const chosen = name ?? [...tables.byName.keys()][0]!;
  const table = tables.byName.get(chosen);
  const here = counts.data?.lifecycles[chosen] ?? {};
  return (
    <>
      <h1>Lifecycles</h1>
      <nav className="tabs" aria-label="Lifecycles">
        {[...tables.byName.keys()].map((each) => (
          <Link
            key={each}
            to={`/lifecycles/${each}`}
            aria-current={each === chosen ? "page" : undefined}
          >
            {each}
          </Link>
        ))}
      </nav>
      {!table ? (
        <Empty title="There is no such lifecycle." />
      ) : (
        <>
          <p className="faint">
            {table.title}. A double border marks a final state. A number on a state is the current
            count. Dashed arrows with labels in italics, and rows marked ext, are extensions.
          </p>
          <Diagram name={chosen} counts={here} />
          <h2>States</h2>
          <div className="scroll">
            <table className="list" aria-label="States">
              <thead>
                <tr>
                  <th scope="col">State</th>
                  <th scope="col" className="end">
                    Now
                  </th>
                  <th scope="col">Meaning</th>
                </tr>
              </thead>
              <tbody>
                {table.states.map((state) => (
                  <tr key={state}>
                    <td>
                      <StateMark table={chosen} state={state} />
                    </td>
                    <td className="end">
                      {counts.data && (here[state] ?? 0).toLocaleString("en")}
                    </td>
                    <td>
                      {table.meanings[state]}
                      {state === table.initial && " It begins here."}
                      {table.terminal.includes(state) && " It ends here."}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <h2>Transitions</h2>
          <div className="scroll">
            <table className="list" aria-label="Transitions">
              <thead>
                <tr>
                  {["From", "Event", "To", "Who", "When", "Extension"].map((each) => (
                    <th key={each} scope="col">
                      {each}
                    </th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {table.rows.map((row) => (
                  <tr key={`${row.source} ${row.event}`}>
                    <td>
                      {row.source ? (
                        <StateMark table={chosen} state={row.source} quiet />
                      ) : (
                        <span className="faint">nothing</span>
                      )}
                    </td>
                    <td className="mono">{row.event}</td>
                    <td>
                      <StateMark table={chosen} state={row.target} quiet />
                    </td>
                    <td>{words(row.who)}</td>
                    <td>{row.why}</td>
                    <td>{row.extension && <span className="tag strong">ext</span>}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
    </>
  );
}
