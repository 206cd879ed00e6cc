"""Waiting for a condition with a deadline, and workers on real stores, for the tests of workers."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from detent.app.handle import Handle
from detent.engine import CommandRequest, Engine, Lifetimes
from detent.ids import new_id
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.store_url import open_store
from detent.store.types import Query
from detent.testing.audit import audit
from detent.testing.harness import Harness
from detent.worker import git_command
from detent.worker.worker import Worker

DEADLINE_S = 90.0
#: A program of a low priority takes ten times longer while other tests use all of the CPU.
#: The default of workers is tested in test_program_priority.py.
NICE = 0
git_command.NICE = NICE


def until(condition: Callable[[], Any], what: str = "it", within_s: float = DEADLINE_S) -> Any:
    """Wait until the condition is true, and return its value. Fails after the deadline."""
    end_s = time.monotonic() + within_s
    pause_s = 0.005
    while True:
        begun_s = time.monotonic()
        value = condition()
        if value:
            return value
        now_s = time.monotonic()
        assert now_s < end_s, f"{what} did not happen within {within_s} s"
        # A condition that takes long is not evaluated all the time: the CPU is for what it awaits.
        time.sleep(max(pause_s, 3 * (now_s - begun_s)))
        pause_s = min(pause_s * 1.2, 0.05)


@contextmanager
def installation(
    directory: Path,
    url: str = "",
    *,
    lease_ms: int = 30_000,
    audited: bool = True,
    **settings: Any,
) -> Iterator[Core]:
    """A store with an engine, as a process would have it; without a URL an SQLite file."""
    given = {"worker_lease_ms": lease_ms, "worker_nice": NICE, **settings}
    made = Settings(store_url=url, store_data_dir=str(directory), **given)
    store = open_store(made.url)
    try:
        yield Core(store, Engine(store, Lifetimes(lease_ms * 1_000)), made)
        if audited:
            audit(store)
    finally:
        store.close()


@contextmanager
def working(core: Core, app: App, **options: Any) -> Iterator[Worker]:
    """A worker that is stopped at the end without a grace period."""
    worker = Worker(core, app, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace_s=0)


def let_pass(worker: Worker, seconds: float) -> None:
    """Pretend that the runs of the worker started, and were last active, this much earlier."""
    for held in worker.held_jobs:
        for run in list(held.runs.values()):
            if run.started_s is not None:
                run.started_s -= seconds
                run.active_s -= seconds


def done(handle: Handle[Any]) -> Any:
    """The result of a job that must have ended."""
    return handle.result(timeout=0)


def error_of(handle: Handle[Any]) -> str:
    """The error of a job that must have failed."""
    with pytest.raises(JobFailed) as raised:
        handle.result(timeout=0)
    return str(raised.value)


def states(core: Core, intent: str | None = None) -> Counter[str]:
    where = {} if intent is None else {"intent": intent}
    with core.store.read() as view:
        return Counter(view.count_by(Query("jobs", where), "state"))


def submit_many(core: Core, intent: str, count: int) -> list[str]:
    ids = [new_id() for _ in range(count)]
    asks = [
        CommandRequest(c.SubmitJob(each, "default", intent), c.Actor("test"), fresh=True)
        for each in ids
    ]
    core.engine.execute(asks, bulk=True)
    return ids


class Gate:
    """Handlers wait here until a test lets them go on."""

    def __init__(self) -> None:
        self.inside: list[str] = []
        self.open = threading.Event()

    def pass_through(self, name: str = "") -> None:
        self.inside.append(name)
        assert self.open.wait(DEADLINE_S)


def step_events(h: Harness, handle: Handle[Any], step: str) -> list[str]:
    with h.store.read() as view:
        events = view.events(0, 10_000, stream=handle.job_id)
    return [each.name for each in events if each.subject == step and each.name.startswith("step_")]


def steps(h: Harness, handle: Handle[Any]) -> dict[str, str]:
    with h.store.read() as view:
        return {step.name: step.state for step in view.steps([handle.job_id])}
