"""The executor: executes claimed jobs. Claim → resolve → perform → normalise → report.

1. claim: the claimer passes claimed jobs to `take`; each becomes a HeldJob.
2. resolve: a HeldJob becomes an ActiveRun with its intent and runner, or a plan with several runs.
3. perform: a pool calls the runner, on a thread or on the event loop. The runner catches the
   exceptions of the handler; the executor catches those of the runner.
4. normalise: the result becomes the one report of the run.
5. report: the reporter commits the report; the answer decides what follows.

The functions `resolve`, `execute` and `normalise` do not know the worker; `Executor` connects them
to its pools. `detent.testing` uses the same functions.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from detent import failpoints
from detent.app.app import App
from detent.app.failures import Crash, Failure
from detent.app.intent import Intent
from detent.app.intent_options import Declared
from detent.app.run_interface import Stop
from detent.engine import Claimed, CommandRequest
from detent.errors import DetentError, Invalid, TooLarge, Unavailable
from detent.kernel import commands as c
from detent.kernel.acceptance import conflicts_in, is_acceptance
from detent.program_log import about
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun, HeldJob, HeldPlan, MakeFiles, PlanWork, Runner
from detent.worker.checker import concerns, with_check, with_findings
from detent.worker.critic import require_critic, with_decision
from detent.worker.due_times import Alarms
from detent.worker.engine_client import EngineClient, WorkerEngineClient
from detent.worker.held_jobs import HeldJobs
from detent.worker.output_uploader import OutputUploader
from detent.worker.plan_runner import PlanRun
from detent.worker.pools import EventLoop, IntentPool, Item, Threads
from detent.worker.reporter import Reporter, Result
from detent.worker.required_evidence import required_of, with_evidence
from detent.worker.runners.registry import Runners
from detent.worker.suspect_jobs import Isolation, is_suspect

log = logging.getLogger("detent.worker")


class Executor:
    """Executes the jobs that one worker claims, and hands them back when the worker stops."""

    def __init__(
        self,
        app: App,
        client: WorkerEngineClient,
        files: MakeFiles,
        *,
        lease_s: float,
        grace_s: float,
        threads: int,
        coroutines: int,
        uploader: OutputUploader,
        reporter: Reporter,
        freed: Callable[[], None],
    ) -> None:
        self.app, self.client, self.files = app, client, files
        self.lease_s, self.grace_s = lease_s, grace_s
        self.uploader, self.reporter = uploader, reporter
        self.runners = Runners()
        self.held_jobs = HeldJobs()
        self.isolation = Isolation(self.held_jobs)
        self.threads = Threads(threads, self._perform, freed)
        self.event_loop = EventLoop(coroutines, self._perform_async, freed)
        #: When this worker expects retries and timers of its jobs; the claimer reads it.
        self.alarms = Alarms()
        #: Whether the worker stops: no plan step is started.
        self.draining = False

    # -- 1. claim --------------------------------------------------------------------------

    def take(self, pool: IntentPool, claimed: list[Claimed], claimed_s: float) -> None:
        """Hold claimed jobs and begin them. A suspect job runs alone: the others go back."""
        taken = [HeldJob(each, claimed_s + self.lease_s) for each in claimed]
        for held in taken:
            self.held_jobs.add(held)
        suspect = next((held for held in taken if is_suspect(held.job)), None)
        if suspect is None:
            self.isolation.careful = False
            self._begin(pool, taken)
            return
        for held in taken:
            if held is not suspect:
                self.report(held, c.HandBack(held.grant))
        self.isolation.take(suspect, lambda: self._begin(pool, [suspect]))

    # -- 2. resolve ------------------------------------------------------------------------

    def _begin(self, pool: IntentPool, taken: list[HeldJob]) -> None:
        """Give the runs of held jobs to their pool; start the plans of those that have one."""
        runs: list[ActiveRun] = []
        for held in taken:
            if held.job.run_id is None:
                held.plan = PlanRun(
                    held, self.app, self.client, self.files, self.runners, lambda: self.draining
                )
                self.advance_plan(held.plan)
            else:
                runs.append(self._with_grace(resolve(held, self.app, self.runners, self.files)))
        if runs:
            pool.pool.put(runs)

    def _with_grace(self, run: ActiveRun) -> ActiveRun:
        run.grace_s = self.grace_s
        return run

    def advance_plan(self, plan: HeldPlan) -> None:
        """Check on a thread, because it may block, which steps of the plan can start."""
        self.threads.put([lambda: self._do_plan_work(plan, plan.advance)])

    def _do_plan_work(self, plan: HeldPlan, work: Callable[[], PlanWork]) -> None:
        try:
            self._follow(plan, work())
        except BaseException:
            self._abandon_job(plan.held)
            raise

    def _follow(self, plan: HeldPlan, work: PlanWork) -> None:
        """Start the runs that a plan wants next; forget its job when the plan is over."""
        for run in work.runs:
            self._with_grace(run)
            if run.runner is not None and run.runner.asynchronous:
                self.event_loop.put([run])
            else:
                self.threads.put([run])
        if work.planner:
            self.threads.put([lambda: self._do_plan_work(plan, plan.make_plan)])
        if plan.over:
            self.held_jobs.drop(plan.held)

    # -- 3. perform ------------------------------------------------------------------------

    def _perform(self, item: Item) -> None:
        """Execute a run on a thread of the pool; or do work for a plan."""
        if not isinstance(item, ActiveRun):
            item()
            return
        begun_s = time.monotonic()
        try:
            report = execute(item, self.client)
            self._note_pace(self.threads, item, begun_s)
            self.ended(item, report)
        except BaseException:
            self._abandon_job(item.held)
            raise

    async def _perform_async(self, run: ActiveRun) -> None:
        """Execute a run on the event loop; what blocks is done on a thread."""
        begun_s = time.monotonic()
        try:
            report = await execute_async(run, self.client)
            self._note_pace(self.event_loop, run, begun_s)
            if run.held.plan is None and not self.uploader.must_send(run.files):
                self.ended(run, report)
            else:
                await self.client.run_blocking(lambda: self.ended(run, report))
        except BaseException:
            self._abandon_job(run.held)
            raise

    def _note_pace(self, pool: Threads | EventLoop, run: ActiveRun, begun_s: float) -> None:
        now_s = time.monotonic()
        pool.pace.note(run.intent.name, now_s - begun_s)
        pool.pace.note_end(now_s, others_wait=len(pool.backlog) > 0)

    def _abandon_job(self, held: HeldJob) -> None:
        """Forget a job after a fault of the worker: its lease runs out, and it counts as lost."""
        held.stop(Stop.LOST)
        if held.plan is not None:
            held.plan.over = True
        self.held_jobs.drop(held)

    # -- 5. report (4, normalise, is below) ------------------------------------------------

    def ended(self, run: ActiveRun, report: c.Report | None) -> None:
        """Send the rest of a run's output, then report its end: to its plan, or to the engine."""
        self.uploader.ended(run.files)
        plan = run.held.plan
        if plan is not None:
            self._follow(plan, plan.ended(run, report))
        elif run.end():
            self.report(run.held, report)

    def report(self, held: HeldJob, report: c.Report | None) -> None:
        """Report the end of a job's run; with None, forget the job: its lease is lost."""
        if report is None:
            self.held_jobs.drop(held)
            return
        ask = CommandRequest(report, self.client.actor)
        self.reporter.report(ask, partial(self._reported, held))

    def _reported(self, held: HeldJob, ask: CommandRequest, result: Result) -> None:
        report: Any = ask.command
        if isinstance(result, DetentError):
            stale = result.code == "stale_fence"
            level = logging.INFO if stale else logging.WARNING
            log.log(level, "job %s: its report was refused: %s", held.grant.job_id, result)
            self.report(held, run_outcome.instead_of(report, result))
            return
        self.held_jobs.drop(held)
        if isinstance(report, c.SuspendRun) and report.due_at is not None:
            self.alarms.add(report.due_at)
        elif isinstance(report, c.FailRun | c.TimeOutRun) and result.value == "retrying":
            self._expect_retry(held)

    def _expect_retry(self, held: HeldJob) -> None:
        """Note when the job is due again. Without that, another scan for due timers finds it."""
        with suppress(Unavailable), self.client.read() as view:
            for job, _ in view.jobs([held.grant.job_id]):
                self.alarms.add(job.not_before)

    # -- handing back ----------------------------------------------------------------------

    def hand_back_unstarted(self, pool: Threads | EventLoop) -> None:
        """Return claimed jobs that have not started to the queue, where other workers find them."""
        kept = []
        for run in pool.withdraw():
            if run.held.plan is not None:
                kept.append(run)
            elif run.end():
                self.report(run.held, c.HandBack(run.held.grant))
        if kept:
            pool.put(kept)

    def hand_back_all_unstarted(self) -> None:
        """Hand back what waits in either pool, and the suspect that waits to run alone."""
        suspect = self.isolation.withdraw()
        if suspect is not None:
            self.report(suspect, c.HandBack(suspect.grant))
        self.hand_back_unstarted(self.threads)
        self.hand_back_unstarted(self.event_loop)

    def hand_back_all(self) -> None:
        """Stop every run. Runs that cannot be stopped are handed back as they are, fenced."""
        for held in self.held_jobs:
            held.stop(Stop.HAND_BACK)
            stuck = [each for each in held.runs.values() if not _can_stop(each)]
            if held.plan is not None and (stuck or not held.runs):
                self._hand_back_plan(held.plan)
            for run in stuck:
                self.ended(run, c.HandBack(held.grant))

    def abandon_all(self) -> None:
        """Hand back every run that has not stopped in time; it is fenced."""
        for held in self.held_jobs:
            if held.plan is not None:
                self._hand_back_plan(held.plan)
            for run in list(held.runs.values()):
                self.ended(run, c.HandBack(held.grant))

    def _hand_back_plan(self, plan: HeldPlan) -> None:
        plan.hand_back()
        self.held_jobs.drop(plan.held)


def _can_stop(run: ActiveRun) -> bool:
    return run.runner is not None and (run.runner.stoppable or run.runner.asynchronous)


# ---- 2. resolve ------------------------------------------------------------------------------


def resolve(held: HeldJob, app: App, runners: Runners, files: MakeFiles) -> ActiveRun:
    """The run of a claimed job without a plan: its intent, its runner, its payload."""
    job = held.job
    run_id = job.run_id or ""
    intent = app.intents.get(job.intent) or Intent(app, job.intent, Declared())
    return ActiveRun(
        held,
        run_id,
        intent,
        files(held, run_id),
        runner=runners.for_job(held, intent),
        payload=held.payload,
        attempt=job.attempt,
    )


# ---- 3. perform ------------------------------------------------------------------------------


def execute(run: ActiveRun, client: EngineClient) -> c.Report | None:
    """Perform a run and return its report; None if its lease is lost. Blocks."""
    return normalise(run, _perform(run, client), client)


def _perform(run: ActiveRun, client: EngineClient) -> c.Report | None:
    if run.stopped is not None:
        return None
    run.start()
    try:
        failpoints.hit("run.start")
        with about(**_ids(run)):
            return _runner_of(run).execute(run, client)
    except Crash:
        raise
    except BaseException as error:  # a fault of the runner must not end the worker's thread
        return _failed(run, error)


async def execute_async(run: ActiveRun, client: EngineClient) -> c.Report | None:
    """As `execute`, awaited. A critic, and reads of the store, may block: they get a thread."""
    report = await _perform_async(run, client)
    if not _is_examined(run):
        return normalise(run, report, client)
    return await client.run_blocking(lambda: normalise(run, report, client))


async def _perform_async(run: ActiveRun, client: EngineClient) -> c.Report | None:
    if run.stopped is not None:
        return None
    run.start()
    try:
        with about(**_ids(run)):
            return await _runner_of(run).execute_async(run, client)
    except Crash:
        raise
    except BaseException as error:
        return _failed(run, error)


def _ids(run: ActiveRun) -> dict[str, str | None]:
    """The ids that the worker's log lines carry while the run is performed."""
    job = run.held.job
    return {"task_id": job.task_id, "job_id": job.id, "run_id": run.run_id}


def _runner_of(run: ActiveRun) -> Runner:
    if run.step is not None:
        require_critic(run)
    if run.runner is None:
        lack = "" if run.step is not None else ", and the work was submitted without a plan"
        raise Failure(f"intent {run.intent.name} has no handler in this worker{lack}")
    return run.runner


def _failed(run: ActiveRun, error: BaseException) -> c.Report:
    return run_outcome.failed(run.held.grant, run.run_id, run_outcome.of_exception(error))


# ---- 4. normalise ----------------------------------------------------------------------------


def normalise(run: ActiveRun, report: c.Report | None, client: EngineClient) -> c.Report | None:
    """The one report of a run, from what its runner returned.

    The reason for which a run had to stop counts before what the runner returned. A successful run
    must have its required evidence. The critic of a plan step adds its decision.
    """
    run.files.end_output()
    if run.stopped is not None and not _finished_anyway(run, report):
        report = REPORT_OF_STOP[run.stopped](run)
    if report is None or not _is_examined(run):
        return report
    if isinstance(report, c.CompleteRun):
        report = _completed(run, report, client)
    return with_decision(run, report, client)


def _is_examined(run: ActiveRun) -> bool:
    """Whether evidence is required of the run, or a check or a critic concerns it."""
    return run.step is not None or concerns(run) or bool(required_of(run))


def _completed(run: ActiveRun, report: c.CompleteRun, client: EngineClient) -> c.Report:
    """The report of a successful run, with its evidence and its check."""
    try:
        found = with_evidence(run, report, client)
        if isinstance(found, c.CompleteRun):
            found = with_check(run, with_findings(run, found, client), client)
    except (Invalid, TooLarge, ValueError, TypeError, RecursionError) as error:
        # A value that cannot be stored.
        return _failed(run, error)
    return found


def _finished_anyway(run: ActiveRun, report: c.Report | None) -> bool:
    """Whether a function returned although the worker stops: then its result counts.

    The exit of a command proves nothing: it may have ended because of the stop. An acceptance that
    was carried out counts in any case.
    """
    if is_acceptance(run.held.job) and run.stopped is not Stop.LOST:
        return isinstance(report, c.CompleteRun) and not conflicts_in(report.result)
    return (
        run.stopped is Stop.HAND_BACK
        and isinstance(report, c.CompleteRun | c.SuspendRun)
        and run.runner is not None
        and not run.runner.stoppable
    )


def _timed_out(run: ActiveRun, how: str) -> c.Report:
    return c.TimeOutRun(run.held.grant, run.run_id, str(run.stopped), f"the run {how}")


#: The report of a run that had to stop. A lost lease has none: it would be refused.
REPORT_OF_STOP: Mapping[Stop, Callable[[ActiveRun], c.Report | None]] = {
    Stop.LOST: lambda _: None,
    Stop.CANCEL: lambda run: c.ConfirmCancel(run.held.grant),
    Stop.HAND_BACK: lambda run: c.HandBack(run.held.grant),
    Stop.RUN_LIMIT: lambda run: _timed_out(run, f"ran longer than {run.run_s} s"),
    Stop.IDLE_LIMIT: lambda run: _timed_out(run, f"gave no sign of life for {run.idle_s} s"),
}
