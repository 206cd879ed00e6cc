"""Plans: one held job's steps, started side by side up to a limit, judged, and planned anew.

The kernel says what may start and what a decision does; this only asks, carries results along the
edges, and rests the job when nothing can start. Steps are carried out elsewhere, as any run is.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from detent import failpoints
from detent.engine.loader import LoadRequest, load
from detent.errors import DetentError, Refused
from detent.kernel import commands as c
from detent.kernel.entities import Job, Step
from detent.kernel.plan import PlanStep
from detent.kernel.plan_steps import CONTINUING, planner_is_due, startable, steps_of
from detent.kernel.world import World
from detent.submission.plan_steps import with_retry_policies
from detent.worker import run_outcome
from detent.worker.active_run import Attempt, Hold, Stop
from detent.worker.engine_client import Line
from detent.worker.failures import Crash, Failure, Stopped
from detent.worker.intent import Declared, Intent, plan_document
from detent.worker.run_files import RunFiles
from detent.worker.values import storable

if TYPE_CHECKING:
    from detent.worker.app import App

log = logging.getLogger("detent.worker")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a planner is asked for: the first plan of a job, or its next version."""

    payload: Any
    #: The version that it makes, from 1.
    version: int
    #: Results of the steps that are done, and errors of those that failed, by name.
    results: Mapping[str, Any]
    errors: Mapping[str, str]


class Work(NamedTuple):
    """What is to be carried out next for a plan."""

    attempts: tuple[Attempt, ...] = ()
    #: The planner must be called.
    planner: bool = False


NOTHING = Work()


class PlanRun:
    """Drives the plan of one job while a worker holds it. Safe to call from any thread."""

    def __init__(
        self,
        hold: Hold,
        app: "App",
        line: Line,
        files: Callable[[str], RunFiles],
        draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self.hold, self.app, self.line, self.files = hold, app, line, files
        #: Whether the worker stops: nothing more is started then.
        self.draining = draining
        self.intent = app.intents.get(hold.job.intent)
        declared = self.intent.declared if self.intent else Declared()
        self.limit = declared.max_parallel_steps
        #: The job has left this worker's hands.
        self.over = False
        #: Some step without a live run may go on later: worth another look now and then.
        self.pending = False
        self.planning = False
        #: Some step can start for which this worker has no intent: another worker must run it.
        self.unable = False
        self._turn = threading.RLock()

    # -- starting --------------------------------------------------------------------------

    def advance(self) -> Work:
        """Start every step that can start now; with nothing live and nothing to start, rest."""
        with self._turn:
            while not self.over and not self.planning:
                if self.draining() or self.hold.stopped is not None:
                    self._finish_early()
                    return NOTHING
                world, now = self._look()
                job = world.jobs[self.hold.job.id]
                if job.state != "running" or job.fence != self.hold.grant.fence:
                    self.over = True
                elif planner_is_due(world, job):
                    self.planning = True
                    return Work(planner=True)
                else:
                    attempts, again = self._start(world, job, now)
                    if attempts or (self.hold.attempts and not again):
                        return Work(tuple(attempts))
                    if not again:
                        self._rest()
            return NOTHING

    def _look(self) -> tuple[World, int]:
        with self.line.read() as view:
            return load(view, LoadRequest([c.RestPlan(self.hold.grant)])), view.now()

    def _start(self, world: World, job: Job, now: int) -> tuple[list[Attempt], bool]:
        """The runs that were started, and whether something else has changed by trying."""
        steps = steps_of(world, job.id)
        ready = self._own(world, startable(world, job, now))
        self.pending = any(
            step.state in CONTINUING and step.run_id is None for step in steps.values()
        )
        room = self.limit - len(self.hold.attempts)
        attempts: list[Attempt] = []
        again = False
        for name in ready:
            if len(attempts) >= room:
                break
            if self.hold.expired():
                break
            try:
                run_id = self.line.tell(c.StartStep(self.hold.grant, name), over=self.hold.expired)
            except Refused as refusal:
                again = self._not_started(refusal) or again
                continue
            if run_id is None:
                again = True  # a person refused it: the step has failed, others may follow
            else:
                failpoints.hit("plan.step_started")
                attempts.append(self._attempt(world, world.plan(job.id).step(name), run_id))
        return attempts, again

    def _own(self, world: World, ready: tuple[str, ...]) -> list[str]:
        """Of the steps that can start, those for which this worker has the intent."""
        plan = world.plan(self.hold.job.id)
        own = [name for name in ready if plan.step(name).intent in self.app.intents]
        self.unable = len(own) < len(ready)
        return own

    def _not_started(self, refusal: Refused) -> bool:
        """Whether to look again at once: the plan has moved, or is not ours any more."""
        if refusal.code == "stale_fence":
            self._lose()
        elif refusal.code != "step_not_startable":
            self.pending = True
            return False
        return True

    def _attempt(self, world: World, planned: PlanStep, run_id: str) -> Attempt:
        steps = steps_of(world, self.hold.job.id)
        step: Step = steps[planned.name]
        results = {
            need: steps[need].result for need in planned.needs if steps[need].state == "succeeded"
        }
        intent = self.app.intents.get(planned.intent)
        return Attempt(
            self.hold,
            run_id,
            intent or Intent(self.app, planned.intent, Declared()),
            self.files(run_id),
            payload=payload_of(self.hold.payload, planned, results),
            number=step.retries + step.lost + 1,
            step=planned,
            results=results,
            resource=self._resource(planned),
        )

    def _resource(self, planned: PlanStep) -> str | None:
        with self.line.read() as view:
            held = {step.name: step.resource for step in view.steps([self.hold.job.id])}
        return held.get(planned.name)

    def _rest(self) -> None:
        if self.hold.expired():
            return  # `advance` looks again, and finds that it must stop
        try:
            state = self.line.tell(c.RestPlan(self.hold.grant), over=self.hold.expired)
        except Refused as refusal:
            if refusal.code == "stale_fence":
                self._lose()
            elif refusal.code == "step_can_start" and self.unable:
                log.info(
                    "job %s goes back to the queue: its steps need another worker", self.hold.job.id
                )
                self._tell(c.HandBack(self.hold.grant))
                self.over = True
            elif refusal.code != "step_can_start":
                log.error("job %s cannot rest: %s", self.hold.job.id, refusal)
                self.over = True  # its lease runs out, and the rules for lost work apply
        else:
            self.over = state != "running"

    # -- ending ----------------------------------------------------------------------------

    def ended(self, attempt: Attempt, report: c.Report | None) -> Work:
        """Report a step's end and go on. A cancel is confirmed when all have stopped."""
        with self._turn:
            if not attempt.end() or self.over:
                return NOTHING
            if report is None:
                self._lose()
            elif not isinstance(report, c.ConfirmCancel | c.HandBack):
                failpoints.hit("plan.step_ended")
                self._tell(report)
            return self.advance()

    def _tell(self, report: c.Report) -> None:
        try:
            self.over = self.line.tell(report, over=self.hold.expired) != "running"
        except DetentError as error:
            instead = run_outcome.instead_of(report, error)
            if instead is None:
                self._lose()
            else:
                self._tell(instead)

    def _finish_early(self) -> None:
        """The job must leave this worker: say so once nothing of it runs any more."""
        if self.hold.attempts or self.planning or self.over:
            return
        if self.hold.stopped is Stop.CANCEL:
            self._tell(c.ConfirmCancel(self.hold.grant))
        elif self.hold.stopped is not Stop.LOST:
            self._tell(c.HandBack(self.hold.grant))
        self.over = True

    def _lose(self) -> None:
        self.hold.stop(Stop.LOST)
        self.over = True

    def hand_back(self) -> None:
        """Give the job back now, whatever still runs for it: it is fenced from here on."""
        with self._turn:
            for attempt in list(self.hold.attempts.values()):
                attempt.end()
            self.planning = False
            self.hold.stop(Stop.HAND_BACK)
            self._finish_early()

    # -- planning --------------------------------------------------------------------------

    def make_plan(self) -> Work:
        """Call the planner and record what it says, or that it failed; then go on."""
        report: c.Report
        try:
            document = self._ask_planner()
            report = c.RecordPlan(self.hold.grant, document)
        except Crash:
            raise
        except BaseException as error:
            failure = run_outcome.of_exception(error)
            report = c.FailPlan(self.hold.grant, failure.error_class.value, failure.error)
        with self._turn:
            self.planning = False
            if not self.over and self.hold.stopped is None and not self.draining():
                self._record(report)
            return self.advance()

    def _record(self, report: c.Report) -> None:
        try:
            answer = self.line.tell(report, over=self.hold.expired)
            failpoints.hit("plan.recorded")
        except Refused:
            self._lose()
        else:
            self.over = isinstance(report, c.FailPlan) and answer != "running"

    def _ask_planner(self) -> Any:
        if self.intent is None or self.intent.planner is None:
            raise Failure(f"intent {self.hold.job.intent} has no planner in this worker")
        if self.hold.expired():
            raise Stopped(Stop.LOST)
        world, _ = self._look()
        job = world.jobs[self.hold.job.id]
        steps = steps_of(world, job.id).values()
        request = PlanRequest(
            self.hold.payload,
            job.plan_version + 1,
            {step.name: step.result for step in steps if step.state == "succeeded"},
            {step.name: step.error or "" for step in steps if step.state == "failed"},
        )
        document = storable(plan_document(self.intent.planner(request)), "the plan")
        return with_retry_policies(document, self._known_intents(), "plan")

    def _known_intents(self) -> dict[str, Mapping[str, Any]]:
        """Those of this worker, and those that any other worker has registered."""
        with self.line.read() as view:
            registered = view.rows("intents")
        return {**registered, **{name: each.row() for name, each in self.app.intents.items()}}


def payload_of(payload: Any, planned: PlanStep, results: Mapping[str, Any]) -> Any:
    """What a step works on: the job's payload, under the results it needs, under its own input."""
    if planned.input is not None and not isinstance(planned.input, Mapping):
        return planned.input
    if not results and not planned.input:
        return payload
    whole = payload if isinstance(payload, Mapping) else {}
    return {**whole, **results, **(planned.input or {})}
