import { describe, expect, test } from "vitest";
import { localValue, snoozeTimes } from "./snooze_times";

const at = (day: number, hour: number, minute = 0) => new Date(2026, 10, day, hour, minute);
const local = (now: Date) => snoozeTimes(now).map((each) => localValue(each.at));

describe("snooze times", () => {
  test("an hour, tomorrow morning, Monday morning", () => {
    expect(local(at(17, 15, 30))).toEqual([
      "2026-11-17T16:30",
      "2026-11-18T09:00",
      "2026-11-23T09:00",
    ]);
  });
  test("on a Monday, next week is in seven days; on a Sunday, it is tomorrow", () => {
    expect(local(at(23, 0, 5))[2]).toBe("2026-11-30T09:00");
    expect(local(at(22, 23, 59)).slice(1)).toEqual(["2026-11-23T09:00", "2026-11-23T09:00"]);
  });
  test("the end of a month", () => {
    expect(local(at(30, 23))).toEqual(["2026-12-01T00:00", "2026-12-01T09:00", "2026-12-07T09:00"]);
  });
});
