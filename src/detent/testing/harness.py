"""A test harness: runs handlers in one thread on a memory store with a virtual clock.

It executes runs with the same code as a worker. A crash is simulated at a write of the run: nothing
is reported, the lease expires, and the next drain continues as another worker would.
"""

import asyncio
import itertools
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from detent.app.app import App
from detent.app.failures import Crash
from detent.app.handle import Handle
from detent.app.retried_calls import never
from detent.engine import Claimed, Engine, due_timers
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.entities import Job
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.store.port import Store, WriteTransaction
from detent.store.types import ClaimFilter
from detent.testing.clock import VirtualClock
from detent.worker.active_run import ActiveRun, HeldJob
from detent.worker.engine_client import EngineClient
from detent.worker.executor import execute, execute_async, resolve
from detent.worker.plan_runner import PlanRun
from detent.worker.run_files import RunFiles
from detent.worker.run_outcome import instead_of
from detent.worker.runners.registry import Runners

MAX_ROUNDS = 10_000
FAR = 1 << 62

Hook = Callable[[str, c.Command], None]
T = TypeVar("T")


class HarnessStore(MemoryStore):
    """A store in memory that the thread of the test does not wait for: `drain` would not run."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self._thread = threading.get_ident()

    def wait(self, after: int, timeout_s: float) -> bool:
        if threading.get_ident() != self._thread:
            return super().wait(after, timeout_s)
        raise AssertionError(
            "The job has not ended, and nothing executes it while the test waits for its result. "
            "Call `harness.drain()` first; `harness.drain(advance=True)` also ends sleeps and "
            "retries."
        )


class HarnessEngineClient(EngineClient):
    """An engine client that calls the hooks before and after every write, in the same thread."""

    def __init__(self, engine: Engine, hooks: list[Hook]) -> None:
        super().__init__(engine, "harness")
        self.hooks = hooks

    def execute(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,  # noqa: ARG002 - a test's store is there or fails
    ) -> Any:
        self._show("before", command)
        answer = self._execute(command, grant)
        self._show("after", command)
        return answer

    def execute_all(
        self, commands: Sequence[c.Command], grant: c.Grant, lease_over: Callable[[], bool] = never
    ) -> list[Any]:
        self._show("before", commands[0])
        answers = super().execute_all(commands, grant, lease_over)
        self._show("after", commands[-1])
        return answers

    async def execute_async(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any:
        return self.execute(command, grant, lease_over)

    async def run_blocking(self, work: Callable[[], Any]) -> Any:
        return work()

    def _show(self, when: str, command: c.Command) -> None:
        for hook in list(self.hooks):
            hook(when, command)


class Harness:
    """Executes the handlers of an app in a test: in this thread, with a virtual clock.

    Without `store`, it uses a store in memory. `clock.now` is the time in microseconds.

    ```python
    calls = []

    @app.intent("build")
    def build(run: Run) -> str:
        run.step("compile", calls.append, "compile")
        run.sleep(86_400)
        return "built"

    handle = harness.submit("build")
    harness.crash(after="compile")  # the first run dies after this checkpoint
    harness.drain(advance=True)
    assert handle.result() == "built"
    assert calls == ["compile"]
    ```
    """

    def __init__(self, app: App, store: Store | None = None) -> None:
        self.clock = VirtualClock()
        self.store: Store = store or HarnessStore(self.clock)
        self.engine = Engine(self.store)
        self.app = app.bind(Core(self.store, self.engine, Settings()))
        app.check()
        app.install_lifecycles()
        self.hooks: list[Hook] = []
        self.runners = Runners()
        self.client = HarnessEngineClient(self.engine, self.hooks)
        directory = tempfile.mkdtemp(prefix="detent-harness-")
        self.runs = Path(directory) / "runs"
        weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)

    def submit(self, intent: str, payload: Any = None, **fields: Any) -> Handle[Any]:
        """Submit work by the name of its intent, as `App.submit` does."""
        return self.app.submit(intent, payload, **fields)

    def resource(self, name: str, **row: Any) -> None:
        """Add a resource. `row` can have `capabilities`, `labels`, `capacity` and `healthy`."""
        self.engine.transaction(lambda tx: tx.put_rows("resources", {name: row}))

    def retry(self, handle: Handle[Any]) -> None:
        """Retry failed work as a person does: its retries are counted from 0 again."""
        again = c.RetryTask(handle.task_id) if handle.task_id else c.RetryJob(handle.job_id)
        self.engine.do(again, c.Actor("person"))

    # -- running ---------------------------------------------------------------------------

    def drain(self, *, advance: bool = False) -> int:
        """Execute jobs until none is claimable, and return the number of claims.

        With `advance`, move the clock to the next due time whenever no job is claimable, until
        nothing is due: sleeps and retries then take no real time.
        """
        claims = 0
        for _ in range(MAX_ROUNDS):
            self.engine.transaction(lambda tx: due_timers.run(tx, 1_000, self.engine.lifetimes))
            claimed = self.engine.claim(
                ClaimRequest("harness", f"n{claims}", 1, list(self.app.intents))
            )
            if claimed:
                claims += 1
                self._run(claimed[0])
            elif not advance or not self._advance():
                return claims
        raise AssertionError(f"still not quiet after {MAX_ROUNDS} rounds")

    def _run(self, claimed: Claimed) -> None:
        held = HeldJob(claimed)
        try:
            if claimed.job.run_id is None:
                self._run_plan(held)
            else:
                run = resolve(held, self.app, self.runners, self._files)
                self._report(self._execute_run(run))
        except Crash:
            self.hooks.clear()

    def _execute_run(self, run: ActiveRun) -> c.Report | None:
        runner = run.runner
        if runner is not None and runner.asynchronous:
            return _awaited(execute_async(run, self.client))
        return execute(run, self.client)

    def _report(self, report: c.Report | None) -> None:
        while report is not None:
            try:
                self.client.execute(report)
                return
            except DetentError as error:
                report = instead_of(report, error)

    def _run_plan(self, held: HeldJob) -> None:
        plan = PlanRun(held, self.app, self.client, self._files, self.runners)
        waiting: list[ActiveRun] = []
        work = plan.advance()
        while True:
            waiting.extend(work.runs)
            if work.planner:
                work = plan.make_plan()
            elif waiting:
                run = waiting.pop(0)
                work = plan.ended(run, self._execute_run(run))
            else:
                return

    def files(self, run_id: str) -> RunFiles:
        return RunFiles(self.runs, run_id, blobs=self.store.blobs)

    def _files(self, _: HeldJob, run_id: str) -> RunFiles:
        return self.files(run_id)

    # -- time ------------------------------------------------------------------------------

    def _advance(self) -> bool:
        """Move the clock to the next due time; False if nothing ever comes by itself."""
        times = self.engine.transaction(self._due_times)
        if not times:
            return False
        self.clock.set(max(self.clock.now, min(times)))
        return True

    def _due_times(self, tx: WriteTransaction) -> list[int]:
        ahead = tx.due(1_000, FAR)
        asleep = tx.claimable(ClaimFilter(list(self.app.intents)), 1_000, FAR)
        jobs = {job.id: job for job, _ in tx.jobs([*ahead.deadlines, *(e.job_id for e in asleep)])}
        waits = {(w.job_id, w.name): w for w in tx.waits({job_id for job_id, _ in ahead.waits})}
        times: list[int | None] = [waits[key].due_at for key in ahead.waits]
        times += [jobs[job_id].job_deadline for job_id in ahead.deadlines]
        times += [jobs[job_id].queue_deadline for job_id in ahead.deadlines]
        times += [jobs[each.job_id].not_before for each in asleep]
        times += [self.clock.now + self.engine.lifetimes.lease_us for _ in ahead.leases]
        return [each for each in times if each is not None]

    # -- crashing --------------------------------------------------------------------------

    def crash(self, *, before: str | None = None, after: str | None = None) -> None:
        """Simulate one crash of the worker: before or after the named checkpoint is recorded.

        Nothing is reported, the lease expires, and the next drain continues the job.
        """
        moment, name = ("before", before) if before is not None else ("after", after)

        def hook(when: str, command: c.Command) -> None:
            if when == moment and name is not None and getattr(command, "name", None) == name:
                raise Crash

        self.hooks.append(hook)

    def crash_at(self, write: int) -> None:
        """Simulate one crash of the worker at a write of the next run.

        `write` 0 is before the first write of the run, 1 after it, 2 before the second, and so on.
        """
        counter = itertools.count()

        def hook(*_: object) -> None:
            if next(counter) == write:
                raise Crash

        self.hooks.append(hook)

    # -- looking ---------------------------------------------------------------------------

    def job(self, job_id: str) -> Job:
        """The row of a job."""
        with self.store.read() as view:
            return next(job for job, _ in view.jobs([job_id]))

    def events(self, job_id: str) -> list[str]:
        """The names of a job's events, in order."""
        with self.store.read() as view:
            return [event.name for event in view.events(0, MAX_ROUNDS, stream=job_id)]


def _awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end. The event loop of a test that is a coroutine cannot do that."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
