import { describe, expect, test } from "vitest";
import { asOf, levelOf, nextState, path } from "./lifecycles";
import { layers, picture } from "./pages/task/plan";
import { marks, timeline } from "./pages/task/timeline";
import { event, JOB, REVIEW, TABLES } from "./testing";

const EVENTS = [
  event("t", "task_created"),
  event("t", "task_queued"),
  event("t-j1", "job_created"),
  event("t-j1", "job_running", { run_id: "t-j1-r1" }),
  event("t-j1", "run_queued", {}, "t-j1-r1"),
  event("t-j1", "run_started", {}, "t-j1-r1"),
  event("t", "task_started"),
  event("t-j1", "wait_begun", { kind: "signal" }, "approved"),
  event("t-j1", "run_succeeded", {}, "t-j1-r1"),
  event("t-j1", "job_waiting"),
  event("t-j1", "wait_completed", { wait: "approved" }),
];

describe("tables", () => {
  test("an event that the table does not have changes nothing", () => {
    expect(nextState(REVIEW, "pending", "task_accepted")).toBe("pending");
    expect(nextState(REVIEW, null, "task_created")).toBe("pending");
  });
  test("which entity an event moves", () => {
    expect(EVENTS.map((each) => levelOf(TABLES, each))).toEqual([
      "task",
      "task",
      "job",
      "job",
      "run",
      "run",
      "task",
      null,
      "run",
      "job",
      "job",
    ]);
  });
  test("the way has every move and the loops, not what moves nothing", () => {
    const loop = [event("j", "job_created"), event("j", "job_requeued"), event("j", "job_parked")];
    expect(path(JOB, loop).map((visit) => [visit.from, visit.event])).toEqual([
      [null, "job_created"],
      ["queued", "job_requeued"],
    ]);
  });
});

describe("as of an earlier event", () => {
  const states = (at: number) =>
    asOf(TABLES, "review", "t", EVENTS, EVENTS[at]!.position).map((each) => [
      each.level,
      each.id,
      each.state,
    ]);
  test("right after the task was queued there is no job", () => {
    expect(states(1)).toEqual([["task", "t", "queued"]]);
  });
  test("a claim records its run", () => {
    expect(states(3)).toEqual([
      ["task", "t", "queued"],
      ["job", "t-j1", "running"],
      ["run", "t-j1-r1", "queued"],
    ]);
  });
  test("at the end", () => {
    expect(states(10)).toEqual([
      ["task", "t", "running"],
      ["job", "t-j1", "queued"],
      ["run", "t-j1-r1", "succeeded"],
    ]);
  });
});

describe("timeline", () => {
  const drawn = timeline(TABLES, "review", "t", EVENTS);
  test("rows in the order of their beginning, waits among them", () => {
    expect(drawn.rows.map((row) => [row.kind, row.label])).toEqual([
      ["task", "task"],
      ["job", "job 1"],
      ["run", "run 1"],
      ["wait", "wait: signal"],
    ]);
  });
  test("a bar ends where the next begins, and a terminal state is a moment", () => {
    const run = drawn.rows[2]!;
    expect(run.bars.map((bar) => bar.state)).toEqual(["queued", "running", "succeeded"]);
    expect(run.bars[1]!.end).toBe(run.bars[2]!.start);
    expect(run.bars[2]!.end).toBe(run.bars[2]!.start);
  });
  test("a wait ends when it is completed", () => {
    expect(drawn.rows[3]!.bars[0]!.end).toBe(Date.parse(EVENTS[10]!.at));
  });
  test("it ends now while work runs, and soon after the last event otherwise", () => {
    expect(drawn.end).toBeNull();
    const resting = timeline(TABLES, "review", "t", EVENTS.slice(0, 2));
    expect(resting.end).toBeGreaterThan(resting.last);
    expect(resting.end! - resting.last).toBeLessThan(1_000);
  });
  test("an axis has a few round marks", () => {
    expect(marks(10_000, 5)).toEqual([0, 2_000, 4_000, 6_000, 8_000, 10_000]);
    expect(marks(86_400_000, 8).length).toBeLessThanOrEqual(9);
  });
});

describe("plan", () => {
  const STEPS = [
    { name: "fetch", intent: "i" },
    { name: "build", intent: "i", needs: ["fetch"] },
    { name: "lint", intent: "i", needs: ["fetch"] },
    { name: "publish", intent: "i", needs: ["build", "fetch"] },
  ];
  test("a step is after every step that it needs", () => {
    expect([...layers(STEPS)]).toEqual([
      ["fetch", 0],
      ["build", 1],
      ["lint", 1],
      ["publish", 2],
    ]);
  });
  test("no two boxes overlap and every need is a line", () => {
    const drawn = picture(STEPS);
    const places = drawn.nodes.map((node) => `${node.x} ${node.y}`);
    expect(new Set(places).size).toBe(STEPS.length);
    expect(drawn.lines.map((line) => [line.from, line.to])).toEqual([
      ["fetch", "build"],
      ["fetch", "lint"],
      ["build", "publish"],
      ["fetch", "publish"],
    ]);
  });
  test("a need that is unknown or circular hangs nothing up", () => {
    const odd = [
      { name: "a", intent: "i", needs: ["b", "ghost"] },
      { name: "b", intent: "i", needs: ["a"] },
    ];
    expect(picture(odd).nodes.length).toBe(2);
  });
  test("a thousand steps are placed quickly", () => {
    const many = Array.from({ length: 1_000 }, (_, at) => ({
      name: `s${at}`,
      intent: "i",
      needs: at ? [`s${Math.floor((at - 1) / 2)}`] : [],
    }));
    const began = performance.now();
    expect(picture(many).nodes.length).toBe(1_000);
    expect(performance.now() - began).toBeLessThan(1_000);
  });
});
