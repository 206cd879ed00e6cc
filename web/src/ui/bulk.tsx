// The same verb for many: first how many it is, then how far it is, then what was refused and why.
import { useRef, useState } from "react";
import type { Problem } from "../api/call";
import { client } from "../api/hooks";
import { plain, plural, shortId } from "../text";
import { Dialog } from "./dialog";
import { Meter } from "./meter";
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
  /** Chooses also what is not shown yet; null if everything is shown. */
  chooseAll: (() => Promise<void>) | null;
  onDone: () => void;
}

export function Bulk<T extends { id: string }>({
  noun,
  items,
  verbs,
  chooseAll,
  onDone,
}: Props<T>) {
  const [verb, setVerb] = useState<Verb<T> | null>(null);
  const [reading, setReading] = useState(false);
  if (!items.length) return null;
  const everything = async () => {
    setReading(true);
    await chooseAll?.();
    setReading(false);
  };
  return (
    <div className="bulk row" role="group" aria-label="With the chosen">
      <strong>{items.length.toLocaleString("en")} chosen</strong>
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
            {each.name} {count.toLocaleString("en")}
          </button>
        );
      })}
      {chooseAll && (
        <button type="button" className="button small" disabled={reading} onClick={everything}>
          {reading ? "Reading all…" : "Choose all that fit"}
        </button>
      )}
      <button type="button" className="button small" onClick={onDone}>
        Choose none
      </button>
      {verb && (
        <Acting
          noun={noun}
          verb={verb}
          items={items}
          onClose={(acted) => {
            setVerb(null);
            if (acted) onDone();
          }}
        />
      )}
    </div>
  );
}

interface ActingProps<T> {
  noun: string;
  verb: Verb<T>;
  items: readonly T[];
  onClose: (acted: boolean) => void;
}

function Acting<T extends { id: string }>({ noun, verb, items, onClose }: ActingProps<T>) {
  // What was chosen when it began; the table may change beneath while it goes on.
  const [fitting] = useState(() => items.filter(verb.fits));
  const [left] = useState(items.length - fitting.length);
  const [done, setDone] = useState<number | null>(null);
  const [refused, setRefused] = useState<Refusal<T>[] | null>(null);
  const stopped = useRef(false);
  const run = async () => {
    setDone(0);
    const found = await forEach(fitting, verb.act, setDone, () => !stopped.current);
    await client.invalidateQueries();
    if (stopped.current) return;
    if (found.length) setRefused(found);
    else {
      say(`${verb.name}: ${plural(fitting.length, noun)}`);
      onClose(true);
    }
  };
  const close = () => {
    stopped.current = true;
    onClose(done !== null);
  };
  if (refused) {
    const well = fitting.length - refused.length;
    return (
      <Dialog title={`${verb.name}: ${well} of ${plural(fitting.length, noun)}`} onClose={close}>
        <p>{plural(refused.length, "was", "were")} refused:</p>
        <ul className="refusals" aria-label="Refused">
          {refused.map(({ item, problem }) => (
            <li key={item.id}>
              <code className="mono">{shortId(item.id)}</code> {plain(problem.message)}
            </li>
          ))}
        </ul>
      </Dialog>
    );
  }
  return (
    <Dialog
      title={`${verb.name} ${plural(fitting.length, noun)}?`}
      action={done === null ? `${verb.name} ${fitting.length}` : `${done} of ${fitting.length}…`}
      danger={verb.danger ?? false}
      busy={done !== null}
      leave={done === null ? "Leave it" : "Stop"}
      onDo={run}
      onClose={close}
    >
      {done === null ? (
        <p>
          {plural(fitting.length, noun)} of the {items.length} chosen can be acted on in their
          state.
          {left > 0 && ` ${left} will be left alone.`}
        </p>
      ) : (
        <Meter label={`${verb.name}: how far it is`} used={done} all={fitting.length} />
      )}
    </Dialog>
  );
}

export interface Refusal<T> {
  item: T;
  problem: Problem;
}

/** Act on all, a few at once, while it is wanted; what was refused, and why. */
export async function forEach<T>(
  items: readonly T[],
  act: (item: T) => Promise<unknown>,
  tell: (done: number) => void,
  wanted: () => boolean = () => true,
): Promise<Refusal<T>[]> {
  const refused: Refusal<T>[] = [];
  let next = 0;
  let done = 0;
  const work = async () => {
    while (next < items.length && wanted()) {
      const item = items[next]!;
      next += 1;
      await act(item).catch((problem: Problem) => refused.push({ item, problem }));
      done += 1;
      tell(done);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return refused;
}
