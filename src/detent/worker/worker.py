"""The worker: claims jobs, executes them in parallel, reports, and stops without losing work.

Threads: the claimer, the reporter, the heartbeat, the lease guard, the watchdog and the output
uploader have one each. Handlers run on a pool of threads, or on one event loop. How a job is
executed is in `executor`; this module starts and stops the parts and registers the worker.
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
from detent.app.app import App
from detent.app.handlers import AgentHandler, CommandHandler, FunctionHandler, Handler, RayHandler
from detent.app.lifecycle_documents import install_all
from detent.engine.claims import Sessions
from detent.kernel.commands.limit_commands import EndPause
from detent.operations.context import Core
from detent.operations.providers import register_providers
from detent.store.port import WriteTransaction
from detent.submission.payload import ARGUMENTS, digest_of, live_versions, registered, withdrawn
from detent.worker import cgroup, sandbox
from detent.worker.active_run import HeldJob
from detent.worker.claimer import Claimer
from detent.worker.engine_client import WorkerEngineClient
from detent.worker.executor import Executor
from detent.worker.heartbeat import Heartbeat
from detent.worker.lease_guard import LeaseGuard
from detent.worker.memory_pressure import MemoryPressure
from detent.worker.output_uploader import OutputUploader
from detent.worker.pools import IntentPool
from detent.worker.reporter import Reporter
from detent.worker.retried_blobs import RetriedBlobs
from detent.worker.run_files import RunFiles
from detent.worker.runners import container
from detent.worker.runners.process_group import Records
from detent.worker.runners.ray.ray_connection import check_ray
from detent.worker.watchdog import Watchdog
from detent.worker.workspaces import Workspaces

log = logging.getLogger("detent.worker")

#: How many coroutines run at the same time for each thread of the pool.
COROUTINES_PER_THREAD = 16
#: The largest number of jobs that a worker holds, however short their runs are.
MAX_HELD = 2_000
#: How often a stopping worker checks whether all runs have ended.
POLL_S = 0.02
#: How long, beyond their grace, stopped runs may take to end.
ENDING_S = 1.0


class Worker:
    """Executes the jobs of an app's intents on one installation.

    `detent worker` starts one; a program can start one itself. `concurrency` is the number of
    threads for plain functions and commands, `coroutines` the number of coroutines at a time.

    ```python
    tools = App()

    @tools.intent("greet")
    def greet(name: str) -> str:
        return f"Hello, {name}"

    tools.connect("tools.db")
    with Worker(tools.installation(), tools, concurrency=2):
        assert greet.submit("Ada").result(timeout=60) == "Hello, Ada"
    ```
    """

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
        self._arguments = _argument_digests(app)
        #: How many live workers have an intent of this one, itself included.
        self._workers = 1
        self._registered, self._stop_calls = False, 0
        self._stopping = threading.Lock()
        self._ending_orphans = threading.Lock()
        size = concurrency or settings.worker_concurrency
        self.reporter = Reporter(core.engine, self._freed)
        self.uploader = OutputUploader(core.store)
        self.client = WorkerEngineClient(core.engine, self.name, self.reporter)
        self.memory = MemoryPressure(size, settings.worker_memory_reserve_percent)
        self.executor = Executor(
            self.app,
            self.client,
            self._run_files,
            lease_s=core.engine.lifetimes.lease_us / 1_000_000,
            grace_s=self.grace_s,
            threads=size,
            coroutines=coroutines or size * COROUTINES_PER_THREAD,
            uploader=self.uploader,
            reporter=self.reporter,
            freed=self._freed,
        )
        self.held_jobs = self.executor.held_jobs
        self.heartbeat = Heartbeat(
            core.engine,
            self.name,
            self.held_jobs,
            settings.worker_heartbeat_ms / 1_000,
            self._after_beat,
        )
        self.watchdog = Watchdog(self.executor)
        self.lease_guard = LeaseGuard(self.held_jobs, self.executor.advance_plan)
        self.claimer = Claimer(
            core.engine,
            self.name,
            self._pools(),
            settings.worker_poll_ms / 1_000,
            self._claim_limit,
            self.executor.take,
            self.executor.alarms,
            self._sessions(settings.worker_session_grace_ms * 1_000),
            lambda: self._workers,
        )

    def _pools(self) -> list[IntentPool]:
        """Threads and the event loop, each with its intents, so that neither blocks the other."""
        awaited = [
            name
            for name, intent in self.app.intents.items()
            if _is_awaited(intent.handler) and intent.planner is None
        ]
        plain = [name for name in self.app.intents if name not in awaited]
        short = [
            name
            for name in plain
            if isinstance(self.app.intents[name].handler, FunctionHandler)
            and self.app.intents[name].planner is None
        ]
        pools = [IntentPool(self.executor.threads, plain, short)]
        if awaited:
            ahead = [name for name in awaited if not self._is_on_ray(name)]
            pools.append(IntentPool(self.executor.event_loop, awaited, ahead))
        return pools

    def _sessions(self, grace_us: int) -> Sessions | None:
        """Agents continue where their sessions are; after the grace, on any worker."""
        agents = {
            name
            for name, intent in self.app.intents.items()
            if isinstance(intent.handler, AgentHandler)
        }
        return Sessions(agents, Workspaces(self.data_dir).holds, grace_us) if agents else None

    def _run_files(self, held: HeldJob, run_id: str) -> RunFiles:
        return RunFiles(
            self.data_dir / "runs",
            run_id,
            max_output=self.core.settings.worker_output_limit,
            blobs=RetriedBlobs(self.core.store.blobs, held.expired),
            on_output=self.uploader.on_output,
        )

    def _claim_limit(self) -> int:
        """How many jobs may be claimed at most now."""
        isolation, held = self.executor.isolation, len(self.held_jobs)
        if self.memory.check(held):
            log.warning("the machine is short of memory: running fewer jobs until it has more")
        free = (self.memory.slots if self.memory.is_lowered else MAX_HELD) - held
        if isolation.is_active() or free <= 0:
            return 0
        return 1 if isolation.careful else free

    def _freed(self) -> None:
        self.claimer.freed()

    # -- start and stop --------------------------------------------------------------------

    def register(self) -> None:
        """Check the machine, end orphaned processes, and store the rows of the worker."""
        sandbox.check(self.core.settings)
        cgroup.check(self.core.settings)
        if self._uses_containers():
            container.check(self.core.settings)
        if any(map(self._is_on_ray, self.app.intents)):
            check_ray()
        self._end_orphans()
        self._end_drain()
        install_all(self.core, self.app.lifecycles.values())
        self.core.engine.transaction(self._register)
        self.core.contexts.clear()
        self._registered = True
        failpoints.hit("worker.registered")

    def start(self) -> None:
        """Register the worker, unless that is done already, and begin to claim."""
        if not self._registered:
            self.register()
        self.reporter.start()
        self.uploader.start()
        self.executor.event_loop.start()
        self.lease_guard.start()
        self.heartbeat.start()
        self.watchdog.start()
        self.claimer.start()

    def stop(self, grace_s: float | None = None) -> None:
        """Claim nothing more, let runs end within the grace, hand back the rest.

        A second call, from any thread, does not wait: everything is handed back now.
        """
        self._stop_calls += 1
        if self._stop_calls > 1:
            self._stop_now()
            return
        with self._stopping:
            self._drain(self.grace_s if grace_s is None else grace_s)

    def _drain(self, grace_s: float) -> None:
        executor = self.executor
        executor.draining = True
        self.claimer.stop()
        for held in self.held_jobs:
            if held.plan is not None:
                executor.advance_plan(held.plan)
        executor.hand_back_all_unstarted()
        self._wait_until_empty(grace_s, lambda: self._stop_calls > 1)
        executor.hand_back_all()
        self._wait_until_empty(self.grace_s + ENDING_S, lambda: False)
        executor.abandon_all()
        self.watchdog.stop()
        self.reporter.stop()
        self.uploader.stop()
        self.heartbeat.stop()
        self.lease_guard.stop()
        executor.threads.stop()
        executor.event_loop.stop()
        executor.runners.close()
        self.core.engine.transaction(self._unregister)
        self._registered = False
        self.core.contexts.clear()
        self._end_drain()

    def _stop_now(self) -> None:
        for held in self.held_jobs:
            for run in list(held.runs.values()):
                run.grace_s = 0.0
        self.executor.hand_back_all()

    def _wait_until_empty(self, seconds: float, hurry: Callable[[], bool]) -> None:
        until_s = time.monotonic() + seconds
        while len(self.held_jobs) and time.monotonic() < until_s and not hurry():
            time.sleep(POLL_S)

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

    # -- registration ----------------------------------------------------------------------

    def _register(self, tx: WriteTransaction) -> bool:
        """Store the rows of the worker and of its intents; submissions are checked against them."""
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
        register_providers(tx, self.core.providers)
        self._announce(tx)
        return True

    def _announce(self, tx: WriteTransaction) -> None:
        """Store the row of this worker, and count the workers that take the same jobs."""
        now = tx.now()
        oldest = now - self.core.settings.worker_lease_ms * 1_000
        others = {name: row for name, row in tx.rows("workers").items() if name != self.name}
        self._workers = 1 + sum(
            row.get("seen_at", 0) > oldest
            and not self.app.intents.keys().isdisjoint(row["intents"])
            for row in others.values()
        )
        tx.put_rows("workers", {self.name: self._row(now)})

    def _row(self, now: int) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "seen_at": now,
            "concurrency": self.executor.threads.size,
            "slots": self.memory.slots,
            "held": len(self.held_jobs),
            "intents": sorted(self.app.intents),
            ARGUMENTS: self._arguments,
        }

    def _after_beat(self) -> None:
        self.core.engine.transaction(self._announce)
        if any(Records(self.data_dir).orphans()) and not self._ending_orphans.locked():
            # Orphans may take time to end, and the heartbeat must not wait for them.
            threading.Thread(target=self._end_orphans, name="detent-orphans", daemon=True).start()

    def _unregister(self, tx: WriteTransaction) -> bool:
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
        self.core.engine.do(EndPause(f"worker:{self.name}"), self.client.actor)

    def _end_orphans(self) -> None:
        with self._ending_orphans:
            records, parent = Records(self.data_dir), cgroup.parent_of(self.core.settings)
            if parent is not None:
                for group in records.orphans():
                    cgroup.RunCgroup(parent, group.run_id).remove()
            for run_id in records.end_orphans(self.grace_s):
                log.warning("terminated the processes of run %s, whose worker was lost", run_id)
            for run_id in (
                container.remove_orphans(self.data_dir) if self._uses_containers() else ()
            ):
                log.warning("removed the container of run %s, whose worker was lost", run_id)

    def _is_on_ray(self, intent: str) -> bool:
        return isinstance(self.app.intents[intent].handler, RayHandler)

    def _uses_containers(self) -> bool:
        """Whether an intent has an image."""
        handlers = [intent.handler for intent in self.app.intents.values()]
        programs = [each for each in handlers if isinstance(each, CommandHandler | AgentHandler)]
        return any(each.program.image is not None for each in programs)


def _is_awaited(handler: Handler | None) -> bool:
    """Whether runs of the handler are awaited on the event loop."""
    asynchronous = isinstance(handler, FunctionHandler) and handler.asynchronous
    return asynchronous or isinstance(handler, RayHandler)


def _argument_digests(app: App) -> dict[str, str]:
    """By intent, the digest of the arguments that its handler takes."""
    rows = {name: intent.row() for name, intent in app.intents.items()}
    return {name: digest_of(row[ARGUMENTS]) for name, row in rows.items() if ARGUMENTS in row}
