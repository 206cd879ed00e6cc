// The same verb for many: first how many it is, then one after the other, then what came of it.
import { useState } from "react";
import type { Problem } from "../api/call";
import { client } from "../api/hooks";
import { plain, plural } from "../text";
import { Dialog } from "./dialog";
import { say } from "./toast";

const AT_ONCE = 4;

export interface Verb<T> {
  name: string;
  danger?: boolean;
  /** Whether it makes sense for an item in its state. */
  fits: (item: T) => boolean;
  act: (item: T) => Promise<unknown>;
}

interface Props<T> {
  noun: string;
  items: readonly T[];
  verbs: readonly Verb<T>[];
  onDone: () => void;
}

export function Bulk<T>({ noun, items, verbs, onDone }: Props<T>) {
  const [verb, setVerb] = useState<Verb<T> | null>(null);
  const [done, setDone] = useState<number | null>(null);
  if (!items.length) return null;
  const fitting = verb ? items.filter(verb.fits) : [];
  const run = async () => {
    setDone(0);
    const refused = await forEach(fitting, verb!.act, setDone);
    await client.invalidateQueries();
    const well = fitting.length - refused.length;
    const rest = refused[0] ? `; ${refused.length} refused: ${plain(refused[0].message)}` : "";
    say(`${verb!.name}: ${plural(well, noun)}${rest}`, { bad: refused.length > 0 });
    setDone(null);
    setVerb(null);
    onDone();
  };
  return (
    <div className="bulk row" role="group" aria-label="With the chosen">
      <strong>{items.length} chosen</strong>
      {verbs.map((each) => {
        const count = items.filter(each.fits).length;
        return (
          <button
            key={each.name}
            type="button"
            className={`button small ${each.danger ? "danger" : ""}`}
            disabled={count === 0}
            onClick={() => setVerb(each)}
          >
            {each.name} {count}
          </button>
        );
      })}
      <button type="button" className="button small" onClick={onDone}>
        Choose none
      </button>
      {verb && (
        <Dialog
          title={`${verb.name} ${plural(fitting.length, noun)}?`}
          action={
            done === null ? `${verb.name} ${fitting.length}` : `${done} of ${fitting.length}…`
          }
          danger={verb.danger ?? false}
          busy={done !== null}
          onDo={run}
          onClose={() => setVerb(null)}
        >
          <p>
            {plural(fitting.length, noun)} of the {items.length} chosen can be acted on in their
            state.
            {items.length > fitting.length &&
              ` ${items.length - fitting.length} will be left alone.`}
          </p>
        </Dialog>
      )}
    </div>
  );
}

/** Act on all, a few at once; the problems of those that were refused. */
export async function forEach<T>(
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  tell: (done: number) => void,
): Promise<Problem[]> {
  const refused: Problem[] = [];
  let next = 0;
  let done = 0;
  const work = async () => {
    while (next < items.length) {
      const item = items[next]!;
      next += 1;
      await act(item).catch((problem: Problem) => refused.push(problem));
      done += 1;
      tell(done);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return refused;
}
