"""The watchdog: a thread that checks the held jobs several times a second.

It stops runs that are over a time limit or whose job is cancelled, hands back claimed jobs that no
thread starts, checks plans again, and abandons functions that do not stop.
"""

import logging
import time

from detent.app.run_interface import Stop
from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.periodic_thread import PeriodicThread
from detent.worker.active_run import ActiveRun, HeldJob
from detent.worker.executor import Executor, normalise
from detent.worker.pools import Backlog

log = logging.getLogger("detent.worker")

TICK_S = 0.05
#: How often the store is read for requested cancels, and plans are checked again.
STORE_CHECK_S = 0.4
#: After which time a claimed job that has not started gets another thread, or is handed back.
WAITING_S, STALE_S = 0.05, 0.25


class Watchdog(PeriodicThread):
    """Checks the runs of one executor."""

    def __init__(self, executor: Executor) -> None:
        super().__init__("detent-watchdog", self._check, first_s=TICK_S)
        self.executor = executor
        self._head = -1
        self._store_check_s = 0.0
        self._failures = FailureLog(
            log,
            "the watchdog cannot read the store",
            "the watchdog reads the store again",
            STORE_CHECK_S,
        )

    def _check(self) -> float:
        try:
            self.tick(time.monotonic())
        except DetentError as error:
            self._failures.failed(error)
            self._store_check_s = time.monotonic() + self._failures.pause_s
        except Exception:
            log.exception("internal error of the watchdog")
        return TICK_S

    def tick(self, now_s: float) -> None:
        """Check everything once."""
        if not len(self.executor.held_jobs):
            return
        for held in self.executor.held_jobs:
            for run in list(held.runs.values()):
                self._check_run(run, now_s)
        self.executor.isolation.check(now_s)
        self._hand_back_stale(now_s)
        if now_s >= self._store_check_s:
            self._store_check_s = now_s + STORE_CHECK_S
            self._check_cancels(now_s)
            self._advance_plans()

    # -- single runs -----------------------------------------------------------------------

    def _check_run(self, run: ActiveRun, now_s: float) -> None:
        if run.started_s is None or run.ended:
            return
        if run.held.expired():
            run.stop(Stop.LOST)
        if run.stopped is None:
            if run.run_s is not None and now_s - run.started_s > run.run_s:
                run.stop(Stop.RUN_LIMIT)
            elif run.idle_s is not None and now_s - run.active_s > run.idle_s:
                run.stop(Stop.IDLE_LIMIT)
        if run.stopped is not None and now_s - run.stopped_s >= self._time_to_stop_s(run):
            self._abandon(run)

    def _time_to_stop_s(self, run: ActiveRun) -> float:
        """How long a run may take to stop. Commands always end; plain functions may never end."""
        runner = run.runner
        if runner is not None and runner.stoppable:
            return float("inf")
        limit = run.stopped in (Stop.RUN_LIMIT, Stop.IDLE_LIMIT)
        return 0.0 if limit and runner and not runner.asynchronous else run.grace_s

    def _abandon(self, run: ActiveRun) -> None:
        """Leave a run that does not stop to itself. It is fenced: its writes are refused."""
        why = run.stopped
        log.warning("run %s does not stop (%s): it is abandoned and fenced", run.run_id, why)
        executor = self.executor
        if why in (Stop.RUN_LIMIT, Stop.IDLE_LIMIT):
            executor.ended(run, normalise(run, None, executor.client))
        else:
            # A cancel takes effect when the lease ends, which is no longer renewed.
            run.end()
            executor.held_jobs.drop(run.held)
        executor.threads.abandon(run)

    # -- claims that wait ------------------------------------------------------------------

    def _hand_back_stale(self, now_s: float) -> None:
        """Hand back jobs that wait behind long runs: another worker may be able to start them."""
        threads, event_loop = self.executor.threads, self.executor.event_loop
        waited_s = _waited_s(threads.backlog, now_s)
        if waited_s >= WAITING_S and threads.busy() < threads.size:
            threads.wake(len(threads.backlog))
        elif waited_s > STALE_S and threads.stalled():
            self.executor.hand_back_unstarted(threads)
        if _waited_s(event_loop.backlog, now_s) > STALE_S and event_loop.stalled():
            self.executor.hand_back_unstarted(event_loop)

    # -- what the store knows --------------------------------------------------------------

    def _check_cancels(self, now_s: float) -> None:
        """Read, if the log has grown, whether a cancel of a held job was requested."""
        live = [held for held in self.executor.held_jobs if held.stopped is None]
        checked = [held for held in live if now_s - held.claimed_s > STORE_CHECK_S / 2]
        if not checked:
            return
        with self.executor.client.read() as view:
            head = view.head()
            if head == self._head:
                self._failures.worked()
                return
            jobs = {job.id: job for job, _ in view.jobs([held.grant.job_id for held in checked])}
        self._failures.worked()
        # Jobs that were too young for this check are checked next time in any case.
        self._head = head if len(checked) == len(live) else -1
        for held in checked:
            job = jobs.get(held.grant.job_id)
            if job is not None and job.cancel_reason is not None:
                self._cancel(held)

    def _cancel(self, held: HeldJob) -> None:
        log.info("job %s is cancelled: stopping its runs", held.grant.job_id)
        held.stop(Stop.CANCEL)
        if held.plan is not None and not held.runs:
            self.executor.advance_plan(held.plan)

    def _advance_plans(self) -> None:
        for held in self.executor.held_jobs:
            if held.plan is not None and held.plan.pending and held.runs:
                self.executor.advance_plan(held.plan)


def _waited_s(backlog: Backlog, now_s: float) -> float:
    oldest = backlog.oldest()
    return 0.0 if oldest is None else now_s - oldest.held.claimed_s
