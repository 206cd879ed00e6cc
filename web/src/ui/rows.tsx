// A table whose rows are sorted and paged by the server; rows can be selected.
import { useInfiniteQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { type Answers, call, type Problem, type Takes } from "../api/call";
import { Loading, Trouble } from "./notes";

type Listing = "list_jobs" | "list_runs" | "list_tasks";
type Item<N extends Listing> = Answers<N>["items"][number];

export interface ColumnOf<T> {
  name: string;
  /** What the server sorts by; a column without it cannot be sorted. */
  sort?: string;
  cell: (item: T) => ReactNode;
  /** Takes the width that is left; a long text has several lines. */
  wide?: boolean;
  end?: boolean;
  /** Is left out where the window is too narrow for all columns. */
  spare?: boolean;
}

function classOf<T>({ wide, end, spare }: ColumnOf<T>): string {
  return [wide && "message-cell", end && "end", spare && "spare"].filter(Boolean).join(" ");
}

const PAGE = 100;

export function usePages<N extends Listing>(name: N, takes: Takes<N>) {
  const pages = useInfiniteQuery<Answers<N>, Problem>({
    queryKey: [name, "pages", takes],
    queryFn: ({ pageParam }) =>
      call(name, { ...takes, limit: PAGE, cursor: pageParam ?? undefined } as Takes<N>),
    initialPageParam: null,
    getNextPageParam: (last) => (last as { cursor: string | null }).cursor,
    placeholderData: (before) => before,
  });
  const items = (pages.data?.pages.flatMap((page) => page.items as Item<N>[]) ?? []) as Item<N>[];
  return { ...pages, items };
}

/** The maximum of rows that are loaded when everything is selected. */
const MAX_ROWS = 2_000;

interface Pages {
  hasNextPage: boolean;
  fetchNextPage: () => Promise<{
    isError: boolean;
    hasNextPage: boolean;
    data?: { pages: { items: { id: string }[] }[] } | undefined;
  }>;
}

/** Reads on to the end, or to an error, which the page shows, and chooses every row that is here;
 * null if everything is here already. */
export function chooseAll(pages: Pages, choose: (chosen: Set<string>) => void) {
  if (!pages.hasNextPage) return null;
  return async () => {
    let ids: string[] = [];
    for (let more = true; more && ids.length < MAX_ROWS; ) {
      const read = await pages.fetchNextPage();
      ids = read.data?.pages.flatMap((page) => page.items.map((item) => item.id)) ?? [];
      more = read.hasNextPage && !read.isError;
    }
    choose(new Set(ids));
  };
}

interface Props<T> {
  label: string;
  items: readonly T[];
  columns: readonly ColumnOf<T>[];
  keyOf: (item: T) => string;
  sort: string;
  onSort: (sort: string) => void;
  chosen?: ReadonlySet<string>;
  onChoose?: (chosen: Set<string>) => void;
}

export function Rows<T>({
  label,
  items,
  columns,
  keyOf,
  sort,
  onSort,
  chosen,
  onChoose,
}: Props<T>) {
  const toggle = (key: string) => {
    const next = new Set(chosen);
    if (!next.delete(key)) next.add(key);
    onChoose?.(next);
  };
  const all = items.length > 0 && items.every((item) => chosen?.has(keyOf(item)));
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label={label}>
      <table className="list stacking" aria-label={label}>
        <thead>
          <tr>
            {onChoose && (
              <th scope="col" className="choose">
                <input
                  type="checkbox"
                  aria-label="Select all rows shown"
                  checked={all}
                  onChange={() => onChoose(new Set(all ? [] : items.map(keyOf)))}
                />
              </th>
            )}
            {columns.map((column) => (
              <Heading key={column.name} column={column} sort={sort} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => {
            const key = keyOf(item);
            return (
              <tr key={key} data-id={key} data-chosen={chosen?.has(key)}>
                {onChoose && (
                  <td className="choose">
                    <input
                      type="checkbox"
                      aria-label={`Select ${key}`}
                      checked={chosen?.has(key) ?? false}
                      onChange={() => toggle(key)}
                    />
                  </td>
                )}
                {columns.map((column) => (
                  <td key={column.name} data-name={column.name} className={classOf(column)}>
                    {column.cell(item)}
                  </td>
                ))}
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

interface HeadingProps<T> {
  column: ColumnOf<T>;
  sort: string;
  onSort: (sort: string) => void;
}

function Heading<T>({ column, sort, onSort }: HeadingProps<T>) {
  const current = sort.replace(/^-/, "") === column.sort;
  const down = sort.startsWith("-");
  const direction = current ? (down ? "descending" : "ascending") : undefined;
  return (
    <th scope="col" aria-sort={direction} className={classOf({ ...column, wide: false })}>
      {column.sort ? (
        <button
          type="button"
          className="sort"
          onClick={() => onSort(current && down ? column.sort! : `-${column.sort}`)}
        >
          {column.name}
          <span aria-hidden="true">{current ? (down ? " ↓" : " ↑") : ""}</span>
        </button>
      ) : (
        column.name
      )}
    </th>
  );
}

interface MoreProps {
  pages: {
    error: Problem | null;
    isPending: boolean;
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    fetchNextPage: () => unknown;
    refetch: () => unknown;
  };
  what: string;
  count: number;
}

/** Below a table: more of it, or what went wrong. */
export function More({ pages, what, count }: MoreProps) {
  if (pages.error) return <Trouble problem={pages.error} again={pages.refetch} />;
  if (pages.isPending) return <Loading what={what} />;
  return (
    <div className="row more">
      <span className="faint">
        {count.toLocaleString("en")} shown{pages.hasNextPage ? ", there are more" : ""}
      </span>
      {pages.hasNextPage && (
        <button
          type="button"
          className="button small"
          disabled={pages.isFetchingNextPage}
          onClick={() => pages.fetchNextPage()}
        >
          Load more
        </button>
      )}
    </div>
  );
}
