import { expect, test } from "vitest";
import { inChunks } from "./bulk";

const items = Array.from({ length: 250 }, (_, at) => at);
const name = (item: number) => `job-${item}`;

test("many are acted on chunk by chunk, and refusals do not stop the rest", async () => {
  const asked: number[] = [];
  const progress: number[] = [];
  const ask = async (ids: string[]) => {
    asked.push(ids.length);
    return ids.filter((id) => id.endsWith("7")).map((id) => ({ id, detail: `no ${id}` }));
  };
  const refused = await inChunks(items, name, ask, (done) => progress.push(done));
  expect(asked).toEqual([100, 100, 50]);
  expect(progress).toEqual([100, 200, 250]);
  expect(refused.length).toBe(25);
  expect(refused[0]).toEqual({ item: 7, detail: "no job-7" });
});

test("a chunk without an answer is refused, and the next one is asked", async () => {
  const ask = async (ids: string[]) => {
    if (ids.includes("job-0")) throw new Error("The gateway does not answer.");
    return [];
  };
  const refused = await inChunks(items, name, ask, () => undefined);
  expect(refused.map(({ item }) => item)).toEqual(items.slice(0, 100));
  expect(refused[0]!.detail).toBe("The gateway does not answer.");
});

test("what was stopped is not sent", async () => {
  const asked: string[][] = [];
  const ask = async (ids: string[]) => {
    asked.push(ids);
    return [];
  };
  const none = () => undefined;
  await inChunks(items, name, ask, none, () => asked.length < 1);
  expect(asked.length).toBe(1);
});
