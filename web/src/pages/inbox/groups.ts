// The inbox in groups: by project, kind, intent or person.
import { KIND_WORDS, type Waiting } from "./kinds";

export const GROUPINGS = ["project", "kind", "intent", "person"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface Group {
  name: string;
  items: Waiting[];
}

const NAMES: Record<Grouping, (waiting: Waiting) => string> = {
  project: (waiting) => waiting.project,
  kind: (waiting) => KIND_WORDS[waiting.kind],
  intent: (waiting) => waiting.intent,
  person: (waiting) => waiting.assignedTo ?? "No person",
};

/** The items in groups, each in the place of its most urgent item; one group without a grouping. */
export function grouped(items: readonly Waiting[], by: Grouping | null): Group[] {
  if (by === null) return [{ name: "", items: [...items] }];
  const groups = new Map<string, Waiting[]>();
  for (const each of items) {
    const name = NAMES[by](each);
    groups.set(name, [...(groups.get(name) ?? []), each]);
  }
  return [...groups].map(([name, found]) => ({ name, items: found }));
}
