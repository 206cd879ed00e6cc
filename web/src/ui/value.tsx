// Shows untrusted values as text: JSON, diffs and plain blocks.
import { useMemo } from "react";
import { diffSize, isDiff, readDiff } from "../diff";
import { plain, plural, shown } from "../text";

const SIGNS = { added: "+", removed: "−", context: " ", hunk: "", file: "" };
const MAX_LINES = 5_000;

export function Value({ value }: { value: unknown }) {
  if (value === "") return <p className="faint">An empty text.</p>;
  return <pre className="block">{shown(value)}</pre>;
}

function DiffView({ text }: { text: string }) {
  const lines = useMemo(() => readDiff(text), [text]);
  const size = diffSize(lines);
  return (
    <figure className="diff">
      <figcaption>
        {plural(size.files, "file")}, <span className="added-text">{size.added} added</span>,{" "}
        <span className="removed-text">{size.removed} removed</span>
      </figcaption>
      <div className="scroll" tabIndex={0} role="region" aria-label="Diff">
        <table className="diff-lines">
          <tbody>
            {lines.slice(0, MAX_LINES).map((line, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no other name
              <tr key={at} data-kind={line.kind}>
                <td className="number">{line.before}</td>
                <td className="number">{line.after}</td>
                <td className="sign">{SIGNS[line.kind]}</td>
                <td className="text">{plain(line.text)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {lines.length > MAX_LINES && (
        <p className="faint">The first {plural(MAX_LINES, "line")} are shown; download the rest.</p>
      )}
    </figure>
  );
}

/** A text in the form that suits it. */
export function TextView({ text, name }: { text: string; name: string }) {
  const form = useMemo(() => formOf(text, name), [text, name]);
  if (!text) return <p className="faint">The file is empty.</p>;
  if (form.kind === "diff") return <DiffView text={text} />;
  return <pre className="block">{form.text}</pre>;
}

function formOf(text: string, name: string): { kind: "diff" | "text"; text: string } {
  if (/\.(diff|patch)$/.test(name) || isDiff(text)) return { kind: "diff", text };
  if (/\.json$/.test(name)) {
    try {
      return { kind: "text", text: shown(JSON.parse(text)) };
    } catch {
      // Not JSON after all: shown as it is.
    }
  }
  return { kind: "text", text: plain(text) };
}
