// The filters and the grouping of the inbox, which the address keeps.
import type { Takes } from "../../api/call";
import { useSearch } from "../../router";
import { plural } from "../../text";
import { type Field, Filters } from "../../ui/choice";
import { GROUPINGS, type Grouping } from "./groups";
import { KIND_WORDS, type Waiting } from "./kinds";

const ME = "me";
const NO_PERSON = "no person";

export type InboxFilter = Takes<"inbox">;

/** The filter of the address, as the server takes it. */
export function filterFrom(search: URLSearchParams): InboxFilter {
  const person = search.get("person");
  const given: InboxFilter = {};
  for (const key of ["project", "kind", "intent"] as const) {
    const value = search.get(key);
    if (value) given[key] = value;
  }
  if (person === ME) given.mine = true;
  else if (person === NO_PERSON) given.unassigned = true;
  else if (person) given.assigned_to = person;
  if (search.get("snoozed")) given.snoozed = true;
  return given;
}

export function groupingFrom(search: URLSearchParams): Grouping | null {
  return GROUPINGS.find((each) => each === search.get("group")) ?? null;
}

interface Props {
  /** Everything that waits, from which the choices are taken. */
  all: readonly Waiting[];
  snoozed: number;
}

export function InboxFilters({ all, snoozed }: Props) {
  const [search, change] = useSearch();
  const people = peopleIn(all);
  const fields: Field[] = [
    { key: "project", choices: distinct(all.map((each) => each.project)) },
    { key: "kind", choices: Object.keys(KIND_WORDS) },
    { key: "intent", choices: distinct(all.map((each) => each.intent)) },
    { key: "person", choices: [ME, NO_PERSON, ...people] },
  ];
  return (
    <Filters fields={fields} alsoCleared={["snoozed"]}>
      <select
        className="input small"
        aria-label="Group by"
        data-set={search.get("group") !== null}
        value={groupingFrom(search) ?? ""}
        onChange={(event) => change({ group: event.target.value })}
      >
        <option value="">no groups</option>
        {GROUPINGS.map((each) => (
          <option key={each} value={each}>
            by {each}
          </option>
        ))}
      </select>
      {(snoozed > 0 || search.get("snoozed")) && (
        <button
          type="button"
          className="button small"
          aria-pressed={search.get("snoozed") !== null}
          onClick={() => change({ snoozed: search.get("snoozed") ? null : "1" })}
        >
          {search.get("snoozed") ? "Back to the inbox" : plural(snoozed, "snoozed", "snoozed")}
        </button>
      )}
    </Filters>
  );
}

/** The people to whom items are assigned. */
export function peopleIn(all: readonly Waiting[]): string[] {
  return distinct(all.flatMap((each) => (each.assignedTo ? [each.assignedTo] : [])));
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names.filter(Boolean))].sort();
}
