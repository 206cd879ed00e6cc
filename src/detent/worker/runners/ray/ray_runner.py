"""The Ray runner: submits a run to a Ray cluster, follows it, and reports how it ended.

The submission is an effect under the fence: its begin is recorded before it is sent, and its key is
known to the cluster. A run that continues after its worker was lost or stopped finds the key and
follows the task that exists. If the end of a task was reported, the next run starts a new one.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from detent.app.handlers import RayHandler
from detent.app.journal import prefix_of
from detent.app.run_interface import Stop
from detent.kernel import commands as c
from detent.kernel.retry import FailureClass
from detent.redaction import redact
from detent.store.types import Query
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.run_files import RunFiles
from detent.worker.runners.command_runner import report_evidence
from detent.worker.runners.ray.messages import (
    FOLLOWED,
    Cancel,
    Ended,
    Leave,
    News,
    Submit,
    TaskSpec,
)
from detent.worker.runners.ray.ray_connection import RayConnection

#: The name of the effect that a submission is; the fence of the run that began it follows.
EFFECT = "ray@"
#: The note after one that reported what the task waits for.
STARTED = "a node of the Ray cluster executes it"
#: How a run ended whose task goes on: another run continues it.
GOES_ON = ("worker_lost", "handed_back")
#: The reasons to stop a run that also end its task. Otherwise another run continues it.
CANCELS = (Stop.CANCEL, Stop.RUN_LIMIT, Stop.IDLE_LIMIT)
MAX_RUNS = 1_000


class RayRunner:
    """Executes the runs of one intent on a cluster, each as a task; they are awaited."""

    asynchronous = True
    stoppable = True

    def __init__(self, handler: RayHandler, connection: RayConnection) -> None:
        self.handler, self.connection = handler, connection

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        return asyncio.run(self.execute_async(run, client))

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        grant, run_id = run.held.grant, run.run_id
        try:
            key = await self._key(run, client)
            run.require_lease()
            ended, evidence = await self._follow(key, run, client)
            if evidence:
                await client.run_blocking(lambda: _keep(run, client, evidence))
        except BaseException as error:  # also the cancellation, when the run must stop
            return run_outcome.failed(grant, run_id, run_outcome.of_exception(error))
        return _report(run, ended)

    # -- the submission ----------------------------------------------------------------------

    async def _key(self, run: ActiveRun, client: EngineClient) -> str:
        """The key of the task to continue, or of a new one whose begin is recorded here."""
        prefix, grant = prefix_of(run) + EFFECT, run.held.grant
        fence = await client.run_blocking(lambda: _fence_to_continue(run, client, prefix))
        if fence is None:
            fence = grant.fence
            step = None if run.step is None else run.step.name
            begin = c.BeginEffect(grant, f"{prefix}{fence}", "reconcile", step)
            await client.execute_async(begin, None, run.held.expired)
        return f"{grant.job_id}:{prefix}{fence}"

    def _submit(self, number: int, key: str, run: ActiveRun) -> Submit:
        job = run.held.job
        spec = TaskSpec(
            key,
            self.handler.reference,
            run.run_id,
            job.id,
            job.task_id,
            job.project,
            run.attempt,
            run.held.grant.fence,
            run.payload,
            dict(run.results or {}),
            run.files.max_output,
        )
        return Submit(number, spec, self.handler.options.of_task(), self.handler.options.amounts())

    # -- following ---------------------------------------------------------------------------

    async def _follow(
        self, key: str, run: ActiveRun, client: EngineClient
    ) -> tuple[Ended, Mapping[str, bytes]]:
        follower = Follower(run, asyncio.get_running_loop())
        self.connection.follow(key, follower)
        notes = asyncio.ensure_future(_report_notes(follower, run, client))
        try:
            answer = self.connection.request(lambda number: self._submit(number, key, run))
            if await asyncio.wrap_future(answer) != FOLLOWED:
                run.held.stop(Stop.LOST)  # a run with a higher fence follows the task
            return await follower.ended
        except asyncio.CancelledError:
            if run.stopped in CANCELS:
                await self._cancel(key, run, follower)
            else:
                self.connection.request(lambda number: Leave(number, key, follower.fence))
            raise
        finally:
            notes.cancel()
            self.connection.leave(key, follower)

    async def _cancel(self, key: str, run: ActiveRun, follower: "Follower") -> None:
        """Cancel the task, and wait for its end, but not longer than the grace."""
        self.connection.request(lambda number: Cancel(number, key, follower.fence))
        await asyncio.wait([follower.ended], timeout=run.grace_s)


class Follower:
    """Takes the news of one run's task, on the thread of the connection."""

    def __init__(self, run: ActiveRun, loop: asyncio.AbstractEventLoop) -> None:
        self.run, self.loop = run, loop
        self.fence = run.held.grant.fence
        self.files: RunFiles = run.files
        self.ended: asyncio.Future[tuple[Ended, Mapping[str, bytes]]] = loop.create_future()
        #: Notes to report, and whether the last one says that the run waits.
        self.notes: asyncio.Queue[str] = asyncio.Queue()
        self.noted = False

    def news(self, news: News) -> None:
        if news.stale:
            self.run.held.stop(Stop.LOST)
            return
        if self.run.stopped is not Stop.LOST:
            self._write(news)
        if news.output or news.started:
            self.run.record_activity()
        if news.started:
            self.resolve(STARTED)
        if news.ended is not None:
            self.loop.call_soon_threadsafe(self._end, news.ended, news.evidence or {})

    def _write(self, news: News) -> None:
        for piece in news.output:
            self.files.write(piece)
        if news.output_cut:
            self.files.cut_output()

    def note(self, text: str) -> None:
        self.run.record_activity()  # a task that has not started is not idle
        self.noted = True
        self.loop.call_soon_threadsafe(self.notes.put_nowait, text)

    def resolve(self, text: str) -> None:
        if self.noted:
            self.noted = False
            self.loop.call_soon_threadsafe(self.notes.put_nowait, text)

    def _end(self, ended: Ended, evidence: Mapping[str, bytes]) -> None:
        if not self.ended.done():
            self.ended.set_result((ended, evidence))


async def _report_notes(follower: Follower, run: ActiveRun, client: EngineClient) -> None:
    """Record why the task does not run; `detent why` shows it."""
    last = ""
    while True:
        note = await follower.notes.get()
        if note != last:
            last = note
            await client.execute_async(
                c.ReportProgress(run.held.grant, run.run_id, None, note),
                None,
                run.held.expired,
            )


def _fence_to_continue(run: ActiveRun, client: EngineClient, prefix: str) -> int | None:
    """The fence in the key of the task that this run continues; None if it starts a new one."""
    if run.step is None and run.held.job.runs <= 1:
        return None
    step = None if run.step is None else run.step.name
    same = {"job_id": run.held.job.id, "step": step}
    query = Query("runs", same, "queued_at", descending=True, limit=MAX_RUNS)
    found, rows = client.query(
        lambda view: (list(view.job_checkpoints(run.held.job.id)), view.page(query)),
        run.held.expired,
    )
    names = [each.name for each in found]
    fences = [int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)]
    begun = max(fences, default=None)
    if begun is None:
        return None
    later = [row for row in rows if row["fence"] >= begun and row["id"] != run.run_id]
    return begun if all(row["outcome"] in GOES_ON for row in later) else None


def _keep(run: ActiveRun, client: EngineClient, evidence: Mapping[str, bytes]) -> None:
    """Store the evidence that the function left."""
    kept = [run.files.keep(name, content) for name, content in evidence.items()]
    report_evidence(run, client, kept)


def _report(run: ActiveRun, ended: Ended) -> c.Report:
    grant, run_id = run.held.grant, run.run_id
    if ended.how == "completed":
        return run_outcome.completed(grant, run_id, ended.result)
    if ended.how == "cancelled":
        text = "the Ray task was cancelled, and not by detent"
        return run_outcome.failed(grant, run_id, run_outcome.Failed(FailureClass.ERROR, text))
    failure = run_outcome.Failed(
        FailureClass(ended.error_class),
        redact(ended.error)[: run_outcome.LONGEST_ERROR],
        ended.exit_code,
        ended.reset_at,
    )
    return run_outcome.failed(grant, run_id, failure)


def connection_of(settings: Any) -> RayConnection:
    """A connection to the cluster of the settings."""
    orphan_s = settings.ray_orphan_ms / 1_000
    return RayConnection(settings.ray_address, orphan_s, 2 * settings.worker_lease_ms / 1_000 + 30)
