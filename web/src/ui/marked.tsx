// A text in which every place is marked that has the text of a search.
import { parts } from "../transcript";

export function Marked({ text, wanted }: { text: string; wanted: string }) {
  if (!wanted) return text;
  return parts(text, wanted).map((part, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other name
    at % 2 ? <mark key={at}>{part}</mark> : part,
  );
}
