"""The watch: a thread that looks at what is held, several times a second, and ends what must end.

Time limits, cancels that were asked for, claims that nobody gets to start, plans in which time has
moved something, and functions that do not stop when they are told to.
"""

import logging
import time
from typing import TYPE_CHECKING

from detent.errors import DetentError
from detent.periodic_thread import PeriodicThread
from detent.worker.active_run import Attempt, Hold, Stop
from detent.worker.executor import concluded

if TYPE_CHECKING:
    from detent.worker.worker import Worker

log = logging.getLogger("detent.worker")

TICK_S = 0.05
#: How often the store is asked whether a cancel was requested, and plans look around.
LOOK_S = 0.4
#: A claim that nobody has started for this long gets another thread, or goes back to the queue.
WAITING_S, STALE_S = 0.05, 0.25


class Watch(PeriodicThread):
    """Looks after one worker's runs."""

    def __init__(self, worker: "Worker") -> None:
        super().__init__("detent-watch", self._look, first_s=TICK_S)
        self.worker = worker
        self._head = -1
        self._look_s = 0.0

    def _look(self) -> float:
        try:
            self.tick(time.monotonic())
        except DetentError as error:
            log.warning("the store is away: %s", error)
        except Exception:
            log.exception("the watch failed")
        return TICK_S

    def tick(self, now_s: float) -> None:
        if not len(self.worker.holds):
            return
        for hold in self.worker.holds:
            for attempt in list(hold.attempts.values()):
                self._look_at(attempt, now_s)
        self.worker.isolation.look(now_s)
        self._hand_back_stale(now_s)
        if now_s >= self._look_s:
            self._look_s = now_s + LOOK_S
            self._hear_cancels(now_s)
            self._move_plans()

    # -- single runs -----------------------------------------------------------------------

    def _look_at(self, attempt: Attempt, now_s: float) -> None:
        if attempt.started_s is None or attempt.ended:
            return
        if attempt.hold.expired():
            attempt.stop(Stop.LOST)
        if attempt.stopped is None:
            if attempt.run_s is not None and now_s - attempt.started_s > attempt.run_s:
                attempt.stop(Stop.RUN_LIMIT)
            elif attempt.idle_s is not None and now_s - attempt.sign_s > attempt.idle_s:
                attempt.stop(Stop.IDLE_LIMIT)
        if attempt.stopped is not None and now_s - attempt.stopped_s >= self._patience_s(attempt):
            self._force(attempt)

    def _patience_s(self, attempt: Attempt) -> float:
        """How long a run may take to stop. Commands end for certain, plain functions never do."""
        runner = attempt.intent.runner
        if runner is not None and runner.stoppable:
            return float("inf")
        limit = attempt.stopped in (Stop.RUN_LIMIT, Stop.IDLE_LIMIT)
        return 0.0 if limit and runner and not runner.asynchronous else attempt.grace_s

    def _force(self, attempt: Attempt) -> None:
        """It does not stop: leave it alone, fenced. What it still writes will be refused."""
        why = attempt.stopped
        log.warning("run %s does not stop (%s): it is left behind, fenced", attempt.run_id, why)
        if why in (Stop.RUN_LIMIT, Stop.IDLE_LIMIT):
            self.worker.ended(attempt, concluded(attempt, None, self.worker.line))
        else:
            # A cancel takes effect at the end of the lease, which nobody renews any more.
            attempt.end()
            self.worker.holds.drop(attempt.hold)
        self.worker.threads.abandon(attempt)

    # -- claims that wait ------------------------------------------------------------------

    def _hand_back_stale(self, now_s: float) -> None:
        """Work that others could do now does not wait here behind a long run."""
        backlog = self.worker.threads.backlog
        try:
            oldest = next((each for each in backlog if isinstance(each, Attempt)), None)
        except RuntimeError:  # it changed while we looked: it moves
            return
        waited_s = 0.0 if oldest is None else now_s - oldest.hold.claimed_s
        if waited_s < WAITING_S:
            return
        if self.worker.threads.busy() < self.worker.threads.size:
            self.worker.threads.wake(len(backlog))
        elif waited_s > STALE_S and self.worker.threads.stalled():
            self.worker.hand_back_unstarted()

    # -- what the store knows --------------------------------------------------------------

    def _hear_cancels(self, now_s: float) -> None:
        """One read for what has been held for a while, and only if the log has grown."""
        live = [hold for hold in self.worker.holds if hold.stopped is None]
        held = [hold for hold in live if now_s - hold.claimed_s > LOOK_S / 2]
        if not held:
            return
        with self.worker.line.read() as view:
            head = view.head()
            if head == self._head:
                return
            jobs = {job.id: job for job, _ in view.jobs([hold.grant.job_id for hold in held])}
        # Those too young to be looked at must be looked at next time, grown or not.
        self._head = head if len(held) == len(live) else -1
        for hold in held:
            job = jobs.get(hold.grant.job_id)
            if job is not None and job.cancel_reason is not None:
                self._cancel(hold)

    def _cancel(self, hold: Hold) -> None:
        log.info("job %s is to be cancelled", hold.grant.job_id)
        hold.stop(Stop.CANCEL)
        if hold.plan is not None and not hold.attempts:
            self.worker.chore(hold.plan, hold.plan.advance)

    def _move_plans(self) -> None:
        for hold in self.worker.holds:
            if hold.plan is not None and hold.plan.pending and hold.attempts:
                self.worker.chore(hold.plan, hold.plan.advance)
