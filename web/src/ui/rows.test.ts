import { expect, test, vi } from "vitest";
import { chooseAll } from "./rows";

const page = (id: string) => ({ items: [{ id }] });

test("all rows are chosen, also those that must be read first", async () => {
  const pages = [page("a")];
  const fetchNextPage = async () => {
    pages.push(page(pages.length === 1 ? "b" : "c"));
    return { isError: false, hasNextPage: pages.length < 3, data: { pages } };
  };
  const chosen = vi.fn();
  await chooseAll({ hasNextPage: true, fetchNextPage }, chosen)!();
  expect(chosen).toHaveBeenCalledExactlyOnceWith(new Set(["a", "b", "c"]));
  expect(chooseAll({ hasNextPage: false, fetchNextPage }, chosen)).toBeNull();
});

test("an error ends the reading; what is here is chosen", async () => {
  const fetchNextPage = vi.fn(async () => {
    if (fetchNextPage.mock.calls.length > 3) throw new Error("it is asked again and again");
    return { isError: true, hasNextPage: true, data: { pages: [page("a")] } };
  });
  const chosen = vi.fn();
  await chooseAll({ hasNextPage: true, fetchNextPage }, chosen)!();
  expect(fetchNextPage).toHaveBeenCalledTimes(1);
  expect(chosen).toHaveBeenCalledExactlyOnceWith(new Set(["a"]));
});
