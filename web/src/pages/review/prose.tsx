// Text that people and agents write: line breaks, code spans and code blocks. Nothing else of
// Markdown is read, and nothing becomes markup.
import { plain } from "../../text";
import { CodeSpans } from "../../ui/code_spans";

const FENCE = /^```[^\n]*\n([\s\S]*?)\n?```[ \t]*$/m;

export function Prose({ text }: { text: string }) {
  // Splitting at a group keeps what it matched: every second part is the content of a block.
  const parts = plain(text).split(new RegExp(FENCE, "gm"));
  return (
    <div className="prose">
      {parts.map((part, at) =>
        at % 2 ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other name
          <pre key={at} className="block">
            {part}
          </pre>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other name
          part.trim() && <Paragraph key={at} text={part.trim()} />
        ),
      )}
    </div>
  );
}

function Paragraph({ text }: { text: string }) {
  return (
    <p>
      <CodeSpans text={text} />
    </p>
  );
}
