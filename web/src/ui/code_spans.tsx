// A text in which what is between backticks is shown as code.

export function CodeSpans({ text }: { text: string }) {
  return text.split(/`([^`\n]+)`/).map((part, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other name
    at % 2 ? <code key={at}>{part}</code> : part,
  );
}
