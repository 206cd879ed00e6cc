"""What the auditor records about plans and of what their steps hold, from the log's own words.

The rules are written down a second time here: no rule of the kernel is asked. Pure.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detent.kernel import commands as c
from detent.kernel import events as e
from verification.simulation.provider_records import ProviderRecords

LOCAL = "local"
MAX_REPLANS = 3
#: What a critic's word makes of a step; any other word fails it.
AFTER = {
    "accept": "step_succeeded",
    "retry": "step_failed_retryable",
    "switch_resource": "step_failed_resource",
    "needs_user": "step_needs_user",
}
#: What a step does that changes its provider at a rate limit.
SWITCHED = "step_failed_resource"
#: The default verdict on a run that failed.
BY_CLASS: Mapping[str | None, str] = {
    None: "accept",
    **dict.fromkeys(("error", "network", "timeout", "rate_limit"), "retry"),
    "resource": "switch_resource",
    "needs_user": "needs_user",
}
FREEING = (
    *(e.StepSucceeded, e.StepFailedRetryable, e.StepFailedResource, e.StepFailedFatal),
    *(e.StepNeedsUser, e.StepLeaseTimeout, e.StepHoldEnded),
)
ENDS = (e.JobCompleted, e.JobFailed, e.JobCancelled)


@dataclass(slots=True)
class StepRecord:
    """One step of a plan version."""

    planned: Mapping[str, Any]
    begun: bool = False
    ended: str | None = None
    retries: int = 0
    avoid: frozenset[str] = frozenset()
    #: Its live run, or None.
    run_id: str | None = None

    @property
    def work(self) -> tuple[str, str]:
        return self.planned["intent"], repr(self.planned["input"])


@dataclass(slots=True)
class PlanRecord:
    """The plan of a job."""

    planner: bool = False
    steps: dict[str, StepRecord] = field(default_factory=dict)
    replans: int = 0
    wanted: bool = False


@dataclass(slots=True)
class PlanRecords:
    """Kept event by event; `note` says what is wrong with an event, if anything is."""

    resources: Mapping[str, Mapping[str, Any]]
    plans: dict[str, PlanRecord] = field(default_factory=dict)
    #: By resource, the steps that hold it.
    holders: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    held: dict[tuple[str, str], str] = field(default_factory=dict)
    runs: dict[str, tuple[str, str]] = field(default_factory=dict)
    effects: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    providers: ProviderRecords = field(init=False)

    def __post_init__(self) -> None:
        self.providers = ProviderRecords(self.resources, counts=self.counts)

    # -- the critic ------------------------------------------------------------------------

    def judged(self, command: c.Command, records: Sequence[e.Record]) -> str | None:
        """Whether a step goes where the word on its run sends it; to be asked before `note`."""
        if not isinstance(command, c.CompleteRun | c.FailRun | c.TimeOutRun):
            return None
        if command.run_id not in self.runs:
            return None
        job_id, name = self.runs[command.run_id]
        plan, kind = self.plans[job_id], _class_of(command)
        word = command.decision or BY_CLASS.get(kind)
        wanted = self._after(plan.steps[name], word, kind)
        found = next((r.event.name for r in records if _of_step(r, job_id, name)), None)
        if found == SWITCHED and wanted == AFTER["retry"] and kind == "rate_limit":
            wanted = self._after_limit(plan.steps[name])
        if found != wanted:
            return f"{word} on {name} of {job_id} led to {found}, not to {wanted}"
        self.counts["critic rejects"] += word != "accept"
        again = word == "replan" and plan.planner and not plan.wanted
        asked = any(isinstance(record.event, e.ReplanRequested) for record in records)
        if asked != (again and plan.replans < MAX_REPLANS):
            return f"{word} on {name} of {job_id} asked for a plan: {asked}, after {plan.replans}"
        return None

    def _after(self, step: StepRecord, word: str | None, kind: str | None) -> str:
        left = kind == "rate_limit" or step.retries < step.planned["max_retries"]
        if word == "retry" and not left:
            return "step_failed_fatal"
        return AFTER.get(word or "", "step_failed_fatal")

    def _after_limit(self, step: StepRecord) -> str:
        """At a rate limit a step may change its provider, if its plan allows that."""
        return SWITCHED if step.planned.get("switch_provider") else AFTER["retry"]

    # -- events ----------------------------------------------------------------------------

    def note(self, record: e.Record) -> str | None:
        event, job_id, name = record.event, record.stream, record.subject or ""
        if isinstance(event, e.JobCreated):
            if event.options.get("planner"):
                self.plans[job_id] = PlanRecord(planner=True)
            return None
        if isinstance(event, e.PlanGenerated):
            return self._laid_out(job_id, event)
        if job_id not in self.plans:
            return None
        if event.level == "step":
            return self._step(job_id, name, event, record.at)
        if event.level == "run":
            return self._run(job_id, name, event, record.at)
        if isinstance(event, e.ReplanRequested):
            self.counts["replans"] += 1
            self.plans[job_id].replans += 1
            self.plans[job_id].wanted = True
        elif isinstance(event, ENDS):
            for step in self.plans[job_id].steps:
                self._free(job_id, step)
        elif isinstance(event, e.JobRequeued) and event.reason == "retried":
            self.plans[job_id].replans = 0
        return None

    def _laid_out(self, job_id: str, event: e.PlanGenerated) -> str | None:
        """What is done stays done in the next plan, if that asks for the same work."""
        plan = self.plans.setdefault(job_id, PlanRecord())
        before, plan.wanted = plan.steps, False
        plan.steps = {each["name"]: StepRecord(each) for each in event.plan["steps"]}
        kept = {
            name
            for name, step in plan.steps.items()
            if name in before and before[name].ended == "succeeded"
            if step.work == before[name].work
        }
        self.counts["steps kept"] += len(kept)
        self.providers.begin_plan(job_id)
        for name in event.carried:
            plan.steps[name].ended = "succeeded"
        still = [each for each in self.held if each[0] == job_id]
        if still:
            return f"{job_id} has a new plan while {still} hold something"
        if set(event.carried) != kept:
            return f"{job_id} keeps {set(event.carried)} of its former plan, done are {kept}"
        return None

    def _step(self, job_id: str, name: str, event: e.Event, at: int) -> str | None:
        step = self.plans[job_id].steps[name]
        if isinstance(event, e.StepLeased | e.StepRunning):
            first, step.begun = not step.begun, True
            early = self._too_early(job_id, name) if first else None
            return early or self._hold(job_id, name, event.resource, at)
        if isinstance(event, FREEING):
            self._free(job_id, name)
        if isinstance(event, e.StepSucceeded | e.StepFailed):
            step.ended = "succeeded" if isinstance(event, e.StepSucceeded) else "failed"
            self.counts[f"steps {step.ended}"] += 1
        elif isinstance(event, e.StepFailedRetryable):
            step.retries += event.error_class not in ("lost", "rate_limit")
        elif isinstance(event, e.StepSwitchingResource):
            self.counts["switches"] += 1
            step.avoid = frozenset(event.avoid)
        elif isinstance(event, e.StepPending):
            step.begun = False
        return None

    def _run(self, job_id: str, run_id: str, event: e.Event, at: int) -> str | None:
        if isinstance(event, e.RunQueued) and event.step is not None:
            step = self.plans[job_id].steps[event.step]
            self.runs[run_id] = (job_id, event.step)
            if step.ended is not None or step.run_id is not None:
                return f"P6: {event.step} of {job_id} runs again: {step}"
            step.run_id = run_id
            return self._hold(job_id, event.step, event.resource or LOCAL, at)
        if run_id in self.runs and isinstance(
            event, e.RunSucceeded | e.RunFailed | e.RunTimedOut | e.RunCancelled
        ):
            name = self.runs[run_id][1]
            self.plans[job_id].steps[name].run_id = None
            self.providers.ended(self.held.get((job_id, name), LOCAL), event, at)
            kept = isinstance(event, e.RunSucceeded) and (
                event.outcome != "suspended" or event.held_until is not None
            )
            if not kept and not isinstance(event, e.RunFailed | e.RunTimedOut):
                self._free(job_id, name)
        return None

    # -- order -----------------------------------------------------------------------------

    def _too_early(self, job_id: str, name: str) -> str | None:
        """A step starts when what it needs has succeeded, or has ended, as it says."""
        steps = self.plans[job_id].steps
        late = steps[name].planned.get("when") == "all_done"
        for need in steps[name].planned["needs"]:
            over = steps[need].ended is not None or self._out_of_reach(job_id, need)
            if not (over if late else steps[need].ended == "succeeded"):
                return f"{name} of {job_id} began before {need}, which is {steps[need]}"
        return None

    def _out_of_reach(self, job_id: str, name: str) -> bool:
        steps = self.plans[job_id].steps
        if steps[name].begun or steps[name].planned.get("when") == "all_done":
            return False
        needs = steps[name].planned["needs"]
        return any(
            steps[need].ended == "failed" or self._out_of_reach(job_id, need) for need in needs
        )

    # -- resources -------------------------------------------------------------------------

    def _hold(self, job_id: str, name: str, resource: str, at: int) -> str | None:
        """Within its capacity, fit for the step, and none that has failed it."""
        if resource == LOCAL:
            return None
        mine, held = (job_id, name), self.held.get((job_id, name))
        if held not in (None, resource):
            return f"{mine} takes {resource} and holds {held}"
        step = self.plans[job_id].steps[name]
        if held is None:
            users = [each for each in self.held.values() if each in self.providers.providers]
            found = self.providers.leased(mine, step.planned, resource, at, users)
            if found is not None:
                return found
        self.held[mine] = resource
        holders = self.holders.setdefault(resource, set())
        holders.add(mine)
        offered = self.resources[resource]
        if len(holders) > offered["capacity"]:
            return f"{resource} is held by {holders}"
        if not set(offered["capabilities"]).issuperset(step.planned["capabilities_required"]):
            return f"{mine} cannot work with {resource}"
        return f"{mine} holds {resource}, which failed it" if resource in step.avoid else None

    def _free(self, job_id: str, name: str) -> None:
        resource = self.held.pop((job_id, name), None)
        if resource is not None:
            self.holders[resource].discard((job_id, name))

    def in_use(self) -> dict[str, int]:
        return {name: len(self.holders.get(name, ())) for name in self.resources}

    def performed(self, run_id: str, resource: str | None) -> str | None:
        """P6: once a run; and what a live run works with is its own."""
        job_id, name = self.runs[run_id]
        self.effects[run_id] += 1
        if self.effects[run_id] > 1:
            return f"P6: {name} of {job_id} was done twice by {run_id}"
        step = self.plans[job_id].steps.get(name)
        live = step is not None and step.run_id == run_id
        held = self.held.get((job_id, name), LOCAL)
        if live and held != resource:
            return f"{run_id} works with {resource}, and its step holds {held}"
        return None


def _of_step(record: e.Record, job_id: str, name: str) -> bool:
    return record.event.level == "step" and (record.stream, record.subject) == (job_id, name)


def _class_of(command: c.CompleteRun | c.FailRun | c.TimeOutRun) -> str | None:
    if isinstance(command, c.CompleteRun):
        return None
    return command.error_class if isinstance(command, c.FailRun) else "timeout"
