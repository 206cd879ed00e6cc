"""The worker: claims jobs, carries them out side by side, reports, and stops without loss.

Threads: one claims, one reports, one beats, one guards leases, one watches, one keeps what runs
leave; handlers run on a pool of threads or on one event loop.
"""

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from detent import failpoints
from detent.engine import Ask, Claimed
from detent.engine.claims import Sessions
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.limit_commands import EndPause
from detent.operations.context import Core
from detent.store.port import WriteTransaction
from detent.submission.payload import ARGUMENTS, digest_of, live_versions, registered, withdrawn
from detent.worker import sandbox
from detent.worker.active_run import Attempt, Hold, Stop
from detent.worker.app import App
from detent.worker.claimer import Claimer, Lane
from detent.worker.engine_client import WorkerLine
from detent.worker.executor import carry_out, carry_out_async
from detent.worker.heartbeat import Heartbeat
from detent.worker.held_jobs import Holds, attempt_of
from detent.worker.lease_guard import LeaseGuard
from detent.worker.output_uploader import Keeping
from detent.worker.plan_runner import PlanRun, Work
from detent.worker.pools import Item, Loop, Threads
from detent.worker.reporter import Outcome, Reporter, Result
from detent.worker.run_files import RunFiles
from detent.worker.run_outcome import instead_of
from detent.worker.runners.agent import AgentRunner
from detent.worker.runners.process_group import Records
from detent.worker.suspect_jobs import Isolation, is_suspect
from detent.worker.watchdog import Watch
from detent.worker.workspaces import Workspaces

log = logging.getLogger("detent.worker")

#: How many coroutines run at once for each thread that plain functions get.
COROUTINES_PER_THREAD = 16
#: No more jobs than this in one worker's hands, however small they are.
MAX_HELD = 2_000
#: How often a stopping worker looks whether it is done.
LOOK_S = 0.02
#: How long, beyond their grace, what was told to stop may take to end.
ENDING_S = 1.0


class Worker:
    """Does the jobs of an app's intents on one installation."""

    def __init__(
        self,
        core: Core,
        app: App,
        *,
        name: str = "",
        concurrency: int | None = None,
        coroutines: int | None = None,
    ) -> None:
        app.check()
        settings = core.settings
        self.core, self.app = core, app.bind(core)
        self.name = name or settings.worker_name or f"{socket.gethostname()}:{os.getpid()}"
        self.grace_s = settings.worker_grace_ms / 1_000
        self.data_dir = settings.data_dir
        self.runs = self.data_dir / "runs"
        self.output_limit = settings.worker_output_limit
        self.holds = Holds()
        rows = {name: intent.row() for name, intent in app.intents.items()}
        #: By intent, the digest of the arguments that its handler takes.
        self._arguments = {
            name: digest_of(row[ARGUMENTS]) for name, row in rows.items() if ARGUMENTS in row
        }
        self.draining = False
        self._stopping = 0
        self._lock = threading.Lock()
        self._ending = threading.Lock()
        size = concurrency or settings.worker_concurrency
        self.reporter = Reporter(core.engine)
        self.keeping = Keeping(core.store)
        self.line = WorkerLine(core.engine, self.name, self.reporter)
        self.threads = Threads(size, self._carry, self._freed)
        self.loop = Loop(coroutines or size * COROUTINES_PER_THREAD, self._carry_async, self._freed)
        self.heartbeat = Heartbeat(
            core.engine,
            self.name,
            self.holds,
            settings.worker_heartbeat_ms / 1_000,
            self._after_beat,
        )
        self.isolation = Isolation(self.holds)
        self.watch = Watch(self)
        self.lease_guard = LeaseGuard(self.holds, self.chore)
        self.claimer = Claimer(
            core.engine,
            self.name,
            self._lanes(),
            settings.worker_poll_ms / 1_000,
            self._most,
            self._take,
            self._sessions(settings.worker_session_grace_ms * 1_000),
        )

    def _lanes(self) -> list[Lane]:
        """Coroutines have their own pool, so that neither kind keeps the other's places."""
        waited = [
            name
            for name, intent in self.app.intents.items()
            if intent.runner is not None and intent.runner.asynchronous and intent.planner is None
        ]
        plain = [name for name in self.app.intents if name not in waited]
        return [Lane(self.threads, plain), *([Lane(self.loop, waited)] if waited else [])]

    def _sessions(self, grace_us: int) -> Sessions | None:
        """Agents go on where their sessions are; after the grace, anywhere, in new ones."""
        agents = {
            name
            for name, intent in self.app.intents.items()
            if isinstance(intent.runner, AgentRunner)
        }
        return Sessions(agents, Workspaces(self.data_dir).holds, grace_us) if agents else None

    def _most(self) -> int:
        """The most jobs that may be claimed at once now."""
        if self.isolation.on() or len(self.holds) >= MAX_HELD:
            return 0
        return 1 if self.isolation.careful else MAX_HELD

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """End what an earlier worker left behind, say who is here, and begin to claim."""
        sandbox.check(self.core.settings)
        self._end_orphans()
        self._end_drain()
        self.core.engine.within(self._register)
        failpoints.hit("worker.registered")
        parts = (self.reporter, self.keeping, self.loop, self.lease_guard, self.heartbeat)
        for part in (*parts, self.watch):
            part.start()
        self.claimer.start()

    def stop(self, grace_s: float | None = None) -> None:
        """Claim nothing more, let runs end within the grace, hand the rest back at once.

        Called a second time, from anywhere, it does not wait: everything is handed back now.
        """
        self._stopping += 1
        if self._stopping > 1:
            self._hurry()
            return
        with self._lock:
            self._drain(self.grace_s if grace_s is None else grace_s)

    def _drain(self, grace_s: float) -> None:
        self.draining = True
        self.claimer.stop()
        for hold in self.holds:
            if hold.plan is not None:
                self.chore(hold.plan, hold.plan.advance)
        self.hand_back_unstarted()
        self._wait(grace_s, lambda: self._stopping > 1)
        self._hand_back_all()
        self._wait(self.grace_s + ENDING_S, lambda: False)
        self._leave_behind()
        for part in (self.watch, self.reporter, self.keeping, self.heartbeat, self.lease_guard):
            part.stop()
        self.threads.stop()
        self.loop.stop()
        self.core.engine.within(self._sign_off)
        self._end_drain()

    def _hurry(self) -> None:
        for hold in self.holds:
            for attempt in list(hold.attempts.values()):
                attempt.grace_s = 0.0
        self._hand_back_all()

    def _wait(self, seconds: float, hurry: Callable[[], bool]) -> None:
        until_s = time.monotonic() + seconds
        while len(self.holds) and time.monotonic() < until_s and not hurry():
            time.sleep(LOOK_S)

    def __enter__(self) -> "Worker":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    async def __aenter__(self) -> "Worker":
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.to_thread(self.stop)

    # -- taking ----------------------------------------------------------------------------

    def _take(self, lane: Lane, claimed: list[Claimed], begun_s: float) -> None:
        """Claimed jobs are begun; a suspect among them is begun alone, and the others go back."""
        holds = [Hold(each, begun_s + self.heartbeat.lease_s) for each in claimed]
        for hold in holds:
            self.holds.add(hold)
        suspect = next((hold for hold in holds if is_suspect(hold.job)), None)
        if suspect is None:
            self.isolation.careful = False
            self._begin(lane, holds)
            return
        for hold in holds:
            if hold is not suspect:
                self._report(hold, c.HandBack(hold.grant))
        self.isolation.take(suspect, lambda: self._begin(lane, [suspect]))

    def _begin(self, lane: Lane, holds: list[Hold]) -> None:
        """Held jobs become runs, or plans that start theirs."""
        attempts: list[Attempt] = []
        for hold in holds:
            if hold.job.run_id is None:
                hold.plan = PlanRun(hold, self.app, self.line, self.files, lambda: self.draining)
                self.chore(hold.plan, hold.plan.advance)
            else:
                attempts.append(self._prepared(attempt_of(hold, self.app, self.files)))
        if attempts:
            lane.pool.put(attempts)

    def _prepared(self, attempt: Attempt) -> Attempt:
        attempt.grace_s = self.grace_s
        return attempt

    def files(self, run_id: str) -> RunFiles:
        keeping = self.keeping
        return RunFiles(
            self.runs, run_id, self.output_limit, keeping.store.blobs, keeping.on_output
        )

    def chore(self, plan: PlanRun, step: Callable[[], Work]) -> None:
        """Something for a plan, on a thread: it may block."""
        self.threads.put([lambda: self._do_chore(plan, step)])

    def _do_chore(self, plan: PlanRun, step: Callable[[], Work]) -> None:
        try:
            self._follow(plan, step())
        except BaseException:
            self._let_go(plan.hold)
            raise

    def _let_go(self, hold: Hold) -> None:
        """Nobody knows how far it came: its lease runs out, and the rules for lost work apply."""
        hold.stop(Stop.LOST)
        if hold.plan is not None:
            hold.plan.over = True
        self.holds.drop(hold)

    def _follow(self, plan: PlanRun, work: Work) -> None:
        """Carry out what a plan wants next; let go of it when it is over."""
        for attempt in work.attempts:
            runner = self._prepared(attempt).intent.runner
            waited = runner is not None and runner.asynchronous
            (self.loop.put if waited else self.threads.put)([attempt])
        if work.planner:
            self.chore(plan, plan.make_plan)
        if plan.over:
            self.holds.drop(plan.hold)

    # -- carrying out ----------------------------------------------------------------------

    def _carry(self, item: Item) -> None:
        if not isinstance(item, Attempt):
            item()
            return
        begun_s = time.monotonic()
        try:
            report = carry_out(item, self.line)
            self.threads.pace.note(time.monotonic() - begun_s)
            self.ended(item, report)
        except BaseException:
            self._let_go(item.hold)
            raise

    async def _carry_async(self, attempt: Attempt) -> None:
        try:
            report = await carry_out_async(attempt, self.line)
            if attempt.hold.plan is None and not self.keeping.must_send(attempt.files):
                self.ended(attempt, report)
            else:
                await self.line.aside(lambda: self.ended(attempt, report))
        except BaseException:
            self._let_go(attempt.hold)
            raise

    def ended(self, attempt: Attempt, report: c.Report | None) -> None:
        """A run has ended: a plan goes on, a job without one is reported."""
        self.keeping.ended(attempt.files)
        plan: PlanRun | None = attempt.hold.plan
        if plan is not None:
            self._follow(plan, plan.ended(attempt, report))
        elif attempt.end():
            self._report(attempt.hold, report)

    def _report(self, hold: Hold, report: c.Report | None) -> None:
        if report is None:
            self.holds.drop(hold)
            return

        def done(ask: Ask, result: Result) -> None:
            self._reported(hold, ask.command, result)

        self.reporter.queue.put(Outcome(Ask(report, self.line.actor), done))

    def _reported(self, hold: Hold, report: Any, result: Result) -> None:
        if isinstance(result, DetentError):
            stale = result.code == "stale_fence"
            level = logging.INFO if stale else logging.WARNING
            log.log(level, "job %s: a report was refused: %s", hold.grant.job_id, result)
            self._report(hold, instead_of(report, result))
            return
        self.holds.drop(hold)
        if isinstance(report, c.SuspendRun) and report.due_at is not None:
            self.claimer.alarms.add(report.due_at)
        elif isinstance(report, c.FailRun | c.TimeOutRun) and result.value == "retrying":
            self._expect_retry(hold)

    def _expect_retry(self, hold: Hold) -> None:
        with self.line.read() as view:
            for job, _ in view.jobs([hold.grant.job_id]):
                self.claimer.alarms.add(job.not_before)

    def _freed(self) -> None:
        self.claimer.freed()

    # -- handing back ----------------------------------------------------------------------

    def hand_back_unstarted(self) -> None:
        """Claims that nobody has started go back to the queue, where others find them."""
        suspect = self.isolation.withdraw() if self.draining else None
        if suspect is not None:
            self._report(suspect, c.HandBack(suspect.grant))
        kept = []
        for attempt in self.threads.withdraw():
            if attempt.hold.plan is not None:
                kept.append(attempt)
            elif attempt.end():
                self._report(attempt.hold, c.HandBack(attempt.hold.grant))
        if kept:
            self.threads.put(kept)

    def _hand_back_all(self) -> None:
        """Tell everything to stop; what cannot be stopped is handed back as it is, and fenced."""
        for hold in self.holds:
            hold.stop(Stop.HAND_BACK)
            stuck = [each for each in hold.attempts.values() if not _stops(each)]
            if hold.plan is not None and (stuck or not hold.attempts):
                self._hand_back_plan(hold.plan)
            for attempt in stuck:
                self.ended(attempt, c.HandBack(hold.grant))

    def _leave_behind(self) -> None:
        """What did not stop in time is handed back all the same, and fenced."""
        for hold in self.holds:
            if hold.plan is not None:
                self._hand_back_plan(hold.plan)
            for attempt in list(hold.attempts.values()):
                self.ended(attempt, c.HandBack(hold.grant))

    def _hand_back_plan(self, plan: PlanRun) -> None:
        plan.hand_back()
        self.holds.drop(plan.hold)

    # -- who is here -----------------------------------------------------------------------

    def _register(self, tx: WriteTransaction) -> bool:
        """The intents of this worker, for intake, and the worker itself, for whoever asks."""
        known = tx.rows("intents")
        lease_ms = self.core.settings.worker_lease_ms
        new = {}
        for name, intent in self.app.intents.items():
            old = known.get(name, {})
            in_use = set(live_versions(tx, name, lease_ms, but=self.name)) if old else set()
            row = registered(intent.row(), old, in_use)
            if known.get(name) != row:
                new[name] = row
        if new:
            tx.put_rows("intents", new)
        tx.put_rows("workers", {self.name: self._row(tx.now())})
        return True

    def _row(self, now: int) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "seen_at": now,
            "concurrency": self.threads.size,
            "held": len(self.holds),
            "intents": sorted(self.app.intents),
            ARGUMENTS: self._arguments,
        }

    def _after_beat(self) -> None:
        self.core.engine.within(lambda tx: tx.put_rows("workers", {self.name: self._row(tx.now())}))
        if any(Records(self.data_dir).orphans()) and not self._ending.locked():
            # They may take their time to end, and leases must not wait for them.
            threading.Thread(target=self._end_orphans, name="detent-orphans", daemon=True).start()

    def _sign_off(self, tx: WriteTransaction) -> bool:
        known, lease_ms = tx.rows("intents"), self.core.settings.worker_lease_ms
        rows = {}
        for name in self.app.intents:
            in_use = set(live_versions(tx, name, lease_ms, but=self.name))
            row = withdrawn(known.get(name, {}), in_use)
            if row != known.get(name, {}):
                rows[name] = row
        if rows:
            tx.put_rows("intents", rows)
        tx.put_rows("workers", {self.name: None})
        return True

    def _end_drain(self) -> None:
        """A drain ends with the worker that was drained."""
        self.core.engine.do(EndPause(f"worker:{self.name}"), self.line.actor)

    def _end_orphans(self) -> None:
        with self._ending:
            for run_id in Records(self.data_dir).end_orphans(self.grace_s):
                log.warning("ended the processes of run %s, whose worker is gone", run_id)


def _stops(attempt: Attempt) -> bool:
    runner = attempt.intent.runner
    return runner is not None and (runner.stoppable or runner.asynchronous)
