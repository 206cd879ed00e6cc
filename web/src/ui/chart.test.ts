import { expect, test } from "vitest";
import { roundTop } from "./chart";

test("the axis of a chart ends at a round number above what is shown", () => {
  expect([0, 1, 3, 7, 39, 100, 250].map(roundTop)).toEqual([2, 2, 4, 8, 60, 200, 400]);
  expect(roundTop(0.03)).toBeCloseTo(0.04);
});
