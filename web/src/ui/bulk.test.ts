import { expect, test } from "vitest";
import { forEach } from "./bulk";

test("many are acted on a few at once, and refusals do not stop the rest", async () => {
  let now = 0;
  let most = 0;
  const told: number[] = [];
  const act = async (item: number) => {
    now += 1;
    most = Math.max(most, now);
    await Promise.resolve();
    now -= 1;
    if (item % 5 === 0) throw new Error(`no ${item}`);
  };
  const items = Array.from({ length: 20 }, (_, at) => at);
  const refused = await forEach(items, act, (done) => told.push(done));
  expect(refused.map(({ item, problem }) => `${item}: ${problem.message}`).sort()).toEqual([
    "0: no 0",
    "10: no 10",
    "15: no 15",
    "5: no 5",
  ]);
  expect(most).toBeLessThanOrEqual(4);
  expect(told.at(-1)).toBe(20);
});

test("what is not wanted any more is left alone", async () => {
  const acted: number[] = [];
  const act = async (item: number) => void acted.push(item);
  const items = Array.from({ length: 20 }, (_, at) => at);
  await forEach(
    items,
    act,
    () => undefined,
    () => acted.length < 5,
  );
  expect(acted.length).toBeLessThan(10);
});
