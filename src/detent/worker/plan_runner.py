"""PlanRun: starts the plan steps of a held job, in parallel up to a limit, and reports their ends.

The kernel decides what may start and what a critic's decision does. This module passes results to
the steps that need them, calls the planner, and suspends the job when no step can start. The
executor executes the steps, as it does any run.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from detent import failpoints
from detent.app.app import App
from detent.app.failures import Crash, Failure, Stopped
from detent.app.intent import Intent, plan_document
from detent.app.intent_options import Declared
from detent.app.plan_request import PlanRequest
from detent.app.run_interface import Stop
from detent.app.values import storable
from detent.engine.loader import LoadRequest, load
from detent.errors import DetentError, Refused
from detent.kernel import commands as c
from detent.kernel.entities import Job, Step
from detent.kernel.plan import PlanStep
from detent.kernel.plan_steps import CONTINUING, planner_is_due, startable, steps_of
from detent.kernel.world import World
from detent.submission.payload import step_payload
from detent.submission.plan_checks import with_inherited_fields
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun, HeldJob, MakeFiles, PlanWork
from detent.worker.engine_client import EngineClient
from detent.worker.runners.registry import Runners

log = logging.getLogger("detent.worker")


NOTHING = PlanWork()


class PlanRun:
    """Drives the plan of one job while a worker holds it. Safe to call from any thread."""

    def __init__(
        self,
        held: HeldJob,
        app: App,
        client: EngineClient,
        files: MakeFiles,
        runners: Runners,
        draining: Callable[[], bool] = lambda: False,
    ) -> None:
        self.held, self.app, self.client, self.files = held, app, client, files
        self.runners = runners
        #: Whether the worker is stopping: no more steps are started then.
        self.draining = draining
        self.intent = app.intents.get(held.job.intent)
        declared = self.intent.declared if self.intent else Declared()
        self.limit = declared.max_parallel_steps
        #: The worker no longer holds the job.
        self.over = False
        #: A step without an active run may continue later, so the plan is checked periodically.
        self.pending = False
        self.planning = False
        #: Some step can start for which this worker has no intent: another worker must run it.
        self.unable = False
        self._turn = threading.RLock()

    # -- starting --------------------------------------------------------------------------

    def advance(self) -> PlanWork:
        """Start every step that can start now. If none runs and none can start, suspend the job."""
        with self._turn:
            while not self.over and not self.planning:
                if self.draining() or self.held.stopped is not None:
                    self._finish_early()
                    return NOTHING
                world, now = self._look()
                job = world.jobs[self.held.job.id]
                if job.state != "running" or job.fence != self.held.grant.fence:
                    self.over = True
                elif planner_is_due(world, job):
                    self.planning = True
                    return PlanWork(planner=True)
                else:
                    runs, again = self._start(world, job, now)
                    if runs or (self.held.runs and not again):
                        return PlanWork(tuple(runs))
                    if not again:
                        self._rest()
            return NOTHING

    def _look(self) -> tuple[World, int]:
        wanted = LoadRequest([c.RestPlan(self.held.grant)])
        return self.client.query(lambda view: (load(view, wanted), view.now()), self.held.expired)

    def _start(self, world: World, job: Job, now: int) -> tuple[list[ActiveRun], bool]:
        """The started runs, and whether the attempt to start changed the plan."""
        steps = steps_of(world, job.id)
        ready = self._own(world, startable(world, job, now))
        self.pending = any(
            step.state in CONTINUING and step.run_id is None for step in steps.values()
        )
        free = self.limit - len(self.held.runs)
        runs: list[ActiveRun] = []
        again = False
        for name in ready:
            if len(runs) >= free:
                break
            if self.held.expired():
                break
            try:
                run_id = self.client.execute(
                    c.StartStep(self.held.grant, name), lease_over=self.held.expired
                )
            except Refused as refusal:
                again = self._not_started(refusal) or again
                continue
            if run_id is None:
                again = True  # a person refused it: the step has failed, others may follow
            else:
                failpoints.hit("plan.step_started")
                runs.append(self._active_run(world, world.plan(job.id).step(name), run_id))
        return runs, again

    def _own(self, world: World, ready: tuple[str, ...]) -> list[str]:
        """Of the steps that can start, those for which this worker has the intent."""
        plan = world.plan(self.held.job.id)
        own = [name for name in ready if plan.step(name).intent in self.app.intents]
        self.unable = len(own) < len(ready)
        return own

    def _not_started(self, refusal: Refused) -> bool:
        """Whether to check again immediately: the plan has changed, or the lease is lost."""
        if refusal.code == "stale_fence":
            self._lose()
        elif refusal.code != "step_not_startable":
            self.pending = True
            return False
        return True

    def _active_run(self, world: World, planned: PlanStep, run_id: str) -> ActiveRun:
        steps = steps_of(world, self.held.job.id)
        step: Step = steps[planned.name]
        results = {
            need: steps[need].result for need in planned.needs if steps[need].state == "succeeded"
        }
        intent = self.app.intents.get(planned.intent)
        if intent is None:
            intent = Intent(self.app, planned.intent, Declared())
        return ActiveRun(
            self.held,
            run_id,
            intent,
            self.files(self.held, run_id),
            runner=self.runners.of(intent),
            payload=step_payload(planned, self.held.payload, results),
            attempt=step.retries + step.lost + 1,
            step=planned,
            results=results,
            resource=self._resource(planned),
        )

    def _resource(self, planned: PlanStep) -> str | None:
        steps = self.client.query(
            lambda view: list(view.steps([self.held.job.id])), self.held.expired
        )
        return next((step.resource for step in steps if step.name == planned.name), None)

    def _rest(self) -> None:
        if self.held.expired():
            return  # `advance` checks again, and finds that it must stop
        try:
            state = self.client.execute(c.RestPlan(self.held.grant), lease_over=self.held.expired)
        except Refused as refusal:
            if refusal.code == "stale_fence":
                self._lose()
            elif refusal.code == "step_can_start" and self.unable:
                log.info(
                    "job %s returns to the queue: its steps need another worker", self.held.job.id
                )
                self._execute(c.HandBack(self.held.grant))
                self.over = True
            elif refusal.code != "step_can_start":
                log.error("job %s cannot be suspended: %s", self.held.job.id, refusal)
                self.over = True  # its lease expires, and the keeper treats it as lost
        else:
            self.over = state != "running"

    # -- ending ----------------------------------------------------------------------------

    def ended(self, run: ActiveRun, report: c.Report | None) -> PlanWork:
        """Report a step's end and continue. A cancel is confirmed when all steps have stopped."""
        with self._turn:
            if not run.end() or self.over:
                return NOTHING
            if report is None:
                self._lose()
            elif not isinstance(report, c.ConfirmCancel | c.HandBack):
                failpoints.hit("plan.step_ended")
                self._execute(report)
            return self.advance()

    def _execute(self, report: c.Report) -> None:
        try:
            self.over = self.client.execute(report, lease_over=self.held.expired) != "running"
        except DetentError as error:
            instead = run_outcome.instead_of(report, error)
            if instead is None:
                self._lose()
            else:
                self._execute(instead)

    def _finish_early(self) -> None:
        """The job must leave this worker: report that when none of its runs is active."""
        if self.held.runs or self.planning or self.over:
            return
        if self.held.stopped is Stop.CANCEL:
            self._execute(c.ConfirmCancel(self.held.grant))
        elif self.held.stopped is not Stop.LOST:
            self._execute(c.HandBack(self.held.grant))
        self.over = True

    def _lose(self) -> None:
        self.held.stop(Stop.LOST)
        self.over = True

    def hand_back(self) -> None:
        """Hand the job back now. Runs that are still active are fenced from now on."""
        with self._turn:
            for run in list(self.held.runs.values()):
                run.end()
            self.planning = False
            self.held.stop(Stop.HAND_BACK)
            self._finish_early()

    # -- planning --------------------------------------------------------------------------

    def make_plan(self) -> PlanWork:
        """Call the planner and record its plan or its failure; then continue."""
        report: c.Report
        try:
            document = self._ask_planner()
            report = c.RecordPlan(self.held.grant, document)
        except Crash:
            raise
        except BaseException as error:
            failure = run_outcome.of_exception(error)
            report = c.FailPlan(self.held.grant, failure.error_class.value, failure.error)
        with self._turn:
            self.planning = False
            if not self.over and self.held.stopped is None and not self.draining():
                self._record(report)
            return self.advance()

    def _record(self, report: c.Report) -> None:
        try:
            answer = self.client.execute(report, lease_over=self.held.expired)
            failpoints.hit("plan.recorded")
        except Refused:
            self._lose()
        else:
            self.over = isinstance(report, c.FailPlan) and answer != "running"

    def _ask_planner(self) -> Any:
        if self.intent is None or self.intent.planner is None:
            raise Failure(f"intent {self.held.job.intent} has no planner in this worker")
        if self.held.expired():
            raise Stopped(Stop.LOST)
        world, _ = self._look()
        job = world.jobs[self.held.job.id]
        steps = steps_of(world, job.id).values()
        request = PlanRequest(
            self.held.payload,
            job.plan_version + 1,
            {step.name: step.result for step in steps if step.state == "succeeded"},
            {step.name: step.error or "" for step in steps if step.state == "failed"},
        )
        document = storable(plan_document(self.intent.planner(request)), "the plan")
        return with_inherited_fields(document, self._known_intents(), "plan")

    def _known_intents(self) -> dict[str, Mapping[str, Any]]:
        """The intents of this worker, and those that other workers have registered."""
        registered = self.client.query(lambda view: view.rows("intents"), self.held.expired)
        return {**registered, **{name: each.row() for name, each in self.app.intents.items()}}
