// Finds the entries of the command palette that match what was typed, the best first.

export interface Entry {
  key: string;
  name: string;
  /** What it is: a page, an action, a task. */
  kind: string;
  /** Further words that find it. */
  words?: string;
  /** What is shown beside the name. */
  note?: string;
  /** Whether the server has found it, perhaps by something that is not shown here. */
  isFound?: boolean;
  act: () => void;
}

/** The entries that match, the best first; entries that match equally well keep their order. */
export function ranked(entries: readonly Entry[], typed: string): Entry[] {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return [...entries];
  return entries
    .map((entry) => ({ entry, score: scoreOf(entry, wanted) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .map(({ entry }) => entry);
}

function scoreOf({ name, words = "", isFound }: Entry, wanted: string): number {
  const title = name.toLowerCase();
  if (title.startsWith(wanted)) return 4;
  if (title.split(/\W+/).some((word) => word.startsWith(wanted))) return 3;
  if (`${title} ${words.toLowerCase()}`.includes(wanted) || isFound) return 2;
  return isWithin(wanted.replaceAll(" ", ""), title) ? 1 : 0;
}

/** Whether the letters occur in this order. */
function isWithin(letters: string, text: string): boolean {
  let at = 0;
  for (const letter of text) {
    if (letter === letters[at]) at += 1;
  }
  return at === letters.length;
}
