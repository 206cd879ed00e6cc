import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, test } from "vitest";
import { Chart, roundTop } from "./chart";

test("the axis of a chart ends at a round number above what is shown", () => {
  expect([0, 1, 3, 7, 39, 100, 250].map(roundTop)).toEqual([2, 2, 4, 8, 60, 200, 400]);
  expect(roundTop(0.03)).toBeCloseTo(0.04);
});

test("each piece of time has one label, also if there is only one, and a bar of its own", () => {
  const drawn = (times: string[]) => {
    const lines = [{ name: "spent", look: "active", values: times.map(() => 1) }];
    const chart = { title: "Cost", kind: "bars" as const, times, lines, say: String };
    return renderToStaticMarkup(createElement(Chart, chart));
  };
  expect(drawn(["18 Nov"]).split("18 Nov").length - 1).toBe(1);
  // A window of a day begins and ends at the same time of the day.
  expect(drawn(["10:00", "11:00", "10:00"]).match(/class="series"/g)).toHaveLength(3);
});
