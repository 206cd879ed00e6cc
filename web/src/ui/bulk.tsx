// One action on many rows: the confirmation, the progress, and what was refused and why.
import { type ReactNode, useRef, useState } from "react";
import { call, type Problem } from "../api/call";
import { client } from "../api/hooks";
import { plain, plural, shortId } from "../text";
import { Dialog } from "./dialog";
import { Meter } from "./meter";
import { say } from "./toast";

/** The number in one request: few enough that the progress bar moves and that it can be stopped. */
const TOGETHER = 100;

export interface Verb<T> {
  name: string;
  danger?: boolean;
  /** Whether it makes sense for an item in its state. */
  fits: (item: T) => boolean;
  operation: "accept_many" | "reject_many" | "retry_many" | "dismiss_many" | "cancel_many";
  /** The task or job that it is done to. */
  of: (item: T) => string;
  /** The label of a text that is asked for first. */
  asks?: string;
  /** What is sent besides the ids. */
  more?: (items: readonly T[], text: string) => Record<string, unknown>;
}

interface Props<T> {
  noun: string;
  items: readonly T[];
  verbs: readonly Verb<T>[];
  /** Chooses also what is not shown yet; null if everything is shown. */
  chooseAll: (() => Promise<void>) | null;
  onDone: () => void;
  /** Other controls for what is selected. */
  children?: ReactNode;
}

export function Bulk<T extends { id: string }>({
  noun,
  items,
  verbs,
  chooseAll,
  onDone,
  children,
}: Props<T>) {
  const [verb, setVerb] = useState<Verb<T> | null>(null);
  const [reading, setReading] = useState(false);
  // What was chosen may leave the page while it is acted on; the outcome is shown nevertheless.
  if (!items.length && !verb) return null;
  const everything = async () => {
    setReading(true);
    await chooseAll?.();
    setReading(false);
  };
  return (
    <div className="bulk row" role="group" aria-label="Selected rows">
      <strong>{items.length.toLocaleString("en")} selected</strong>
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
      {children}
      {chooseAll && (
        <button type="button" className="button small" disabled={reading} onClick={everything}>
          {reading ? "Loading all…" : "Select all that match"}
        </button>
      )}
      <button type="button" className="button small" onClick={onDone}>
        Clear selection
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
  const [text, setText] = useState("");
  const stopped = useRef(false);
  const run = async () => {
    setDone(0);
    const more = verb.more?.(fitting, text.trim()) ?? {};
    const ask = async (ids: string[]) => (await call(verb.operation, { ids, ...more })).refused;
    const found = await inChunks(fitting, verb.of, ask, setDone, () => !stopped.current);
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
          {refused.map(({ item, detail }) => (
            <li key={item.id}>
              <code className="mono">{shortId(item.id)}</code> {plain(detail)}
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
      leave={done === null ? "Close" : "Stop"}
      onDo={run}
      onClose={close}
    >
      {done === null ? (
        <>
          <p>
            {plural(fitting.length, noun)} of the {items.length} selected{" "}
            {fitting.length === 1 ? "allows this in its" : "allow this in their"} present state.
            {left > 0 && ` ${left} will be skipped.`}
          </p>
          {verb.asks && (
            <label className="field">
              <span>{verb.asks}</span>
              <textarea
                className="input"
                rows={3}
                maxLength={10_000}
                value={text}
                onChange={(event) => setText(event.target.value)}
              />
            </label>
          )}
        </>
      ) : (
        <Meter label={`${verb.name}: progress`} used={done} all={fitting.length} />
      )}
    </Dialog>
  );
}

export interface Refusal<T> {
  item: T;
  detail: string;
}

/** Act on all, chunk by chunk, until it is stopped; returns what was refused, and why. A chunk
 * without a response is refused as a whole; the next chunks are sent nevertheless. */
export async function inChunks<T>(
  items: readonly T[],
  of: (item: T) => string,
  ask: (ids: string[]) => Promise<{ id: string; detail: string }[]>,
  tell: (done: number) => void,
  wanted: () => boolean = () => true,
): Promise<Refusal<T>[]> {
  const refused: Refusal<T>[] = [];
  for (let at = 0; at < items.length && wanted(); at += TOGETHER) {
    const chunk = items.slice(at, at + TOGETHER);
    const ids = chunk.map(of);
    const answer = await ask(ids).catch((problem: Problem) =>
      ids.map((id) => ({ id, detail: problem.message })),
    );
    const details = new Map(answer.map(({ id, detail }) => [id, detail]));
    for (const item of chunk) {
      const detail = details.get(of(item));
      if (detail !== undefined) refused.push({ item, detail });
    }
    tell(at + chunk.length);
  }
  return refused;
}
