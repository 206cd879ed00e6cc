// One row of a transcript. All text is untrusted and is shown as text: no markup, no links.
import { memo, type ReactNode, useMemo } from "react";
import type { TranscriptItem } from "../api/schema";
import { diffSize, readDiff } from "../diff";
import { plural } from "../text";
import { clockTime, exactUtc } from "../time";
import { amounts, folded, lineCount, readable } from "../transcript";
import { Marked } from "./marked";

const SIGNS = { added: "+", removed: "−", context: " ", hunk: "", file: "" };
/** Edits up to this number of lines are open at first. */
const SHORT_DIFF = 30;
/** Lines of a text that are shown while it is folded. */
const FOLDED: Partial<Record<TranscriptItem["kind"], number>> = { thinking: 3, text: 20, note: 20 };

interface Props {
  item: TranscriptItem;
  /** The result of a tool call, as soon as there is one. */
  result: TranscriptItem | null;
  newTurn: boolean;
  wanted: string;
  /** Whether this is the match that the reader is at. */
  current: boolean;
  /** Whether the reader has opened or closed it. */
  open: boolean | undefined;
  toggle: (number: number, open: boolean) => void;
}

export const TranscriptRow = memo(function TranscriptRow(props: Props) {
  const { item, result, newTurn, current } = props;
  const failed = item.is_error || result?.is_error === true;
  return (
    <article
      className="transcript-row"
      data-kind={item.kind}
      data-role={item.role ?? undefined}
      data-error={failed || undefined}
      data-current={current || undefined}
    >
      {newTurn && item.turn !== null && (
        <p className="transcript-turn">
          Turn {item.turn}
          {item.kind !== "cost" && amounts(item) && ` · ${amounts(item)}`}
        </p>
      )}
      <Time at={item.at} line={item.raw_line} />
      <div className="transcript-body">
        <Body {...props} failed={failed} />
      </div>
    </article>
  );
});

function Time({ at, line }: { at: string | null; line: number }) {
  if (at === null) return <span className="transcript-time">line {line}</span>;
  const time = Date.parse(at);
  return (
    <time className="transcript-time" dateTime={at} title={`${exactUtc(time)}\nline ${line}`}>
      {clockTime(time).replace(/[.,]\d+/, "")}
    </time>
  );
}

function Body(props: Props & { failed: boolean }) {
  const { item } = props;
  if (item.kind === "tool_call" || item.kind === "tool_result") return <Tool {...props} />;
  if (item.kind === "edit") return <Edit {...props} />;
  if (item.kind === "cost") {
    return (
      <p className="faint">
        {item.text}: {amounts(item) || "no amounts"}
      </p>
    );
  }
  return (
    <>
      <Name item={item} />
      <Folding {...props} text={item.text ?? ""} lines={FOLDED[item.kind]} />
    </>
  );
}

function Name({ item }: { item: TranscriptItem }) {
  if (item.kind === "text") return null;
  const name = item.kind === "message" ? (item.role ?? "message") : item.kind;
  return <span className="transcript-name">{readable(name)}</span>;
}

/** A text that is folded to its first lines, with a button for the rest. */
function Folding(props: Props & { text: string; lines: number | undefined }) {
  const { item, wanted, current, open, toggle, lines } = props;
  const text = useMemo(() => readable(props.text), [props.text]);
  const head = lines === undefined ? { text, left: 0 } : folded(text, lines);
  const whole = open ?? current;
  return (
    <>
      <Text text={whole ? text : head.text} wanted={wanted} />
      {head.left > 0 && (
        <button
          type="button"
          className="transcript-more"
          aria-expanded={whole}
          onClick={() => toggle(item.number, !whole)}
        >
          {whole ? "Show less" : `Show all ${plural(lineCount(text), "line")}`}
        </button>
      )}
    </>
  );
}

/** A tool call with its result: one line until it is opened. */
function Tool(props: Props & { failed: boolean }) {
  const { item, wanted, current, open, toggle, failed } = props;
  const result = item.kind === "tool_result" ? item : props.result;
  const shown = open ?? current;
  return (
    <>
      <Head item={item} open={shown} toggle={toggle} wanted={wanted}>
        {outcome(result, failed)}
      </Head>
      {shown && item.input !== null && <Block name="Input" text={item.input} wanted={wanted} />}
      {shown && result && (
        <Block name="Output" text={result.output || "(no output)"} wanted={wanted} />
      )}
    </>
  );
}

function outcome(result: TranscriptItem | null, failed: boolean): string {
  if (!result) return "no result";
  const lines = plural(lineCount(result.output), "line");
  return failed ? `failed, ${lines}` : lines;
}

interface HeadProps {
  item: TranscriptItem;
  open: boolean;
  toggle: (number: number, open: boolean) => void;
  wanted: string;
  children: ReactNode;
}

function Head({ item, open, toggle, wanted, children }: HeadProps) {
  return (
    <button
      type="button"
      className="transcript-head"
      aria-expanded={open}
      onClick={() => toggle(item.number, !open)}
    >
      <span className="transcript-name">{readable(item.tool ?? "result")}</span>
      <span className="transcript-summary">
        <Marked text={readable(item.text ?? "")} wanted={wanted} />
      </span>
      <span className="faint">{children}</span>
    </button>
  );
}

function Block({ name, text, wanted }: { name: string; text: string; wanted: string }) {
  return (
    <section className="transcript-block" aria-label={name}>
      <span className="faint">{name}</span>
      <Text text={readable(text)} wanted={wanted} />
    </section>
  );
}

function Edit({ item, result, wanted, current, open, toggle }: Props) {
  const lines = useMemo(() => readDiff(item.diff ?? "").slice(0, 5_000), [item.diff]);
  const size = diffSize(lines);
  const shown = open ?? (current || lines.length <= SHORT_DIFF);
  return (
    <>
      <Head item={item} open={shown} toggle={toggle} wanted={wanted}>
        {item.diff !== null && (
          <>
            <span className="added-text">+{size.added}</span>{" "}
            <span className="removed-text">−{size.removed}</span>
          </>
        )}
        {(item.is_error || result?.is_error) && " failed"}
      </Head>
      {shown && item.diff !== null && (
        <section className="transcript-diff" aria-label="Diff">
          {lines.map((line, at) =>
            line.kind === "file" || line.kind === "hunk" ? null : (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name
              <div key={at} data-kind={line.kind}>
                <span className="sign">{SIGNS[line.kind]}</span>
                <Marked text={readable(line.text)} wanted={wanted} />
              </div>
            ),
          )}
        </section>
      )}
      {shown && result?.is_error && (
        <Block name="Output" text={result.output ?? ""} wanted={wanted} />
      )}
    </>
  );
}

function Text({ text, wanted }: { text: string; wanted: string }) {
  return (
    <div className="transcript-text">
      <Marked text={text} wanted={wanted} />
    </div>
  );
}
