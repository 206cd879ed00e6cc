import { describe, expect, test } from "vitest";
import { asOf, columnOf, eventLabel, isUnderReview, nextState, path } from "./lifecycles";
import { layers, picture } from "./pages/task/plan";
import { marks, timeline } from "./pages/task/timeline";
import { event, RELEASE, REVIEW, TABLES } from "./testing";

const EVENTS = [
  event("t", "task_created", { lifecycle: "review" }),
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
    expect(EVENTS.map((each) => TABLES.kindOf(each.name))).toEqual([
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
    expect(path(TABLES, "job", loop).map((visit) => [visit.from, visit.event])).toEqual([
      [null, "job_created"],
      ["queued", "job_requeued"],
    ]);
  });
});

describe("a lifecycle that was installed", () => {
  const moved = [
    event("t", "task_created", { lifecycle: "release" }),
    event("t", "task_queued"),
    event("t", "task_started"),
    event("t", "task_ready"),
    event("t", "task_sent_back", { comment: "again", round: 1 }),
    event("t", "task_migrated", { lifecycle: "release@2", state: "queued" }),
    event("t", "task_started"),
  ];
  test("tasks move by its own events, and continue under another version", () => {
    expect(path(TABLES, "task", moved).map((visit) => [visit.table, visit.state])).toEqual([
      ["release", "draft"],
      ["release", "queued"],
      ["release", "building"],
      ["release", "approval"],
      ["release", "queued"],
      ["release@2", "queued"],
      ["release@2", "building"],
    ]);
    const [task] = asOf(TABLES, "t", moved, moved[4]!.position);
    expect(task).toMatchObject({ kind: "task", table: "release", state: "queued" });
    const bars = timeline(TABLES, "t", moved).rows[0]!.bars;
    expect(bars.at(-1)).toMatchObject({ table: "release@2", state: "building", end: null });
  });
  test("the newest version of each is offered", () => {
    expect(TABLES.newest().map((each) => each.id)).toEqual([
      "review",
      "release@2",
      "job",
      "run",
      "step",
    ]);
    expect(TABLES.versions("release").map((each) => each.version)).toEqual([2, 1]);
  });
  test("states with the same column are together; others are named by themselves", () => {
    expect(RELEASE.states.map((state) => columnOf(RELEASE, state))).toEqual([
      "draft",
      "In work",
      "In work",
      "approval",
      "released",
    ]);
  });
  test("a person decides in an idle state that waits for one", () => {
    expect(RELEASE.states.filter((state) => isUnderReview(RELEASE, state))).toEqual(["approval"]);
  });
  test("an event is named by its words", () => {
    expect(eventLabel("task_sent_back")).toBe("Sent back");
  });
});

describe("as of an earlier event", () => {
  const states = (at: number) =>
    asOf(TABLES, "t", EVENTS, EVENTS[at]!.position).map((each) => [each.kind, each.id, each.state]);
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
  const drawn = timeline(TABLES, "t", EVENTS);
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
    const resting = timeline(TABLES, "t", EVENTS.slice(0, 2));
    expect(resting.end).toBeGreaterThan(resting.last);
    expect(resting.end! - resting.last).toBeLessThan(1_000);
  });
  test("runs and waits are below their step, and steps below their job", () => {
    const steps = (job: string) => [
      event(job, "job_created"),
      event(job, "step_pending", {}, "build"),
      event(job, "step_pending", {}, "sign"),
      event(job, "run_queued", { step: "build" }, `${job}-r1`),
      event(job, "wait_begun", { kind: "question", step: "sign" }, "ask"),
      event(job, "run_queued", { step: "build" }, `${job}-r2`),
    ];
    const created = event("t", "task_created", { lifecycle: "review" });
    const { rows } = timeline(TABLES, "t", [created, ...steps("t-j1"), ...steps("t-j2")]);
    const below = ["2 step build", "3 run 1", "3 run 2", "2 step sign", "3 wait: question"];
    expect(rows.map((row) => `${row.depth} ${row.label}`)).toEqual([
      "0 task",
      ...["1 job 1", ...below],
      ...["1 job 2", ...below],
    ]);
  });
  test("a task whose job rests is shown as waiting, with the time at which it continues", () => {
    const until = 1_800_000_000_000;
    const timer = { kind: "timer", due_at: until * 1_000, detail: {} };
    const slept = [
      ...EVENTS.slice(0, 7),
      event("t-j1", "wait_begun", timer, "night"),
      event("t-j1", "job_waiting", { reason: "timer" }),
    ];
    const bars = (events: typeof slept) =>
      timeline(TABLES, "t", events).rows[0]!.bars.map((bar) => [bar.state, bar.until]);
    expect(bars(slept).slice(-2)).toEqual([
      ["running", null],
      ["waiting", until],
    ]);
    const woken = [...slept, event("t-j1", "wait_completed", { wait: "night" })];
    expect(bars(woken).at(-1)).toEqual(["running", null]);
    const asked = [...slept, event("t", "task_blocked", { reason: "question" })];
    const blocked = asked.map((each) =>
      each === asked.at(-1) ? { ...each, at: slept.at(-1)!.at } : each,
    );
    expect(bars(blocked).map(([state]) => state)).toEqual([
      ...["pending", "queued", "running"],
      "blocked",
    ]);
  });
  test("a step that sleeps is shown as waiting, under the name that its handler gave", () => {
    const until = 1_800_000_000_000;
    const timer = { kind: "timer", step: "sign", due_at: until * 1_000, detail: {} };
    const events = [
      event("t", "task_created", { lifecycle: "review" }),
      event("t-j1", "job_created"),
      event("t-j1", "step_pending", {}, "sign"),
      event("t-j1", "wait_begun", timer, "sign~d9c9bbad/night window"),
    ];
    const step = (all: typeof events) =>
      timeline(TABLES, "t", all)
        .rows.find((row) => row.kind === "step")!
        .bars.at(-1)!;
    expect(step(events)).toMatchObject({
      state: "waiting",
      table: null,
      until,
      why: "night window",
    });
    const woken = [...events, event("t-j1", "wait_ended", {}, "sign~d9c9bbad/night window")];
    expect(step(woken)).toMatchObject({ state: "pending", end: null, until: null });
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
