"""Interfaces that the run context needs and the worker implements: the run, its job, the engine.

They keep `app` independent of `worker`: `worker.active_run` and `worker.engine_client` have the
classes that implement them.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from detent.app.intent import Intent
from detent.app.retried_calls import never
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.plan import PlanStep
from detent.store.port import ReadTransaction

T = TypeVar("T")


class Stop(StrEnum):
    """Why a run must end before its handler has returned."""

    CANCEL = "cancel"
    LOST = "lost"
    RUN_LIMIT = "run"
    IDLE_LIMIT = "idle"
    HAND_BACK = "hand_back"


class EngineConnection(Protocol):
    """Executes commands of a run. What it returns has been committed."""

    @property
    def actor(self) -> c.Actor: ...

    def query(
        self, read: Callable[[ReadTransaction], T], lease_over: Callable[[], bool] = never
    ) -> T: ...

    def now(self, lease_over: Callable[[], bool] = never) -> int: ...

    def execute(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any: ...

    def execute_all(
        self, commands: Sequence[c.Command], grant: c.Grant, lease_over: Callable[[], bool] = never
    ) -> list[Any]: ...

    async def execute_async(
        self,
        command: c.Command,
        grant: c.Grant | None = None,
        lease_over: Callable[[], bool] = never,
    ) -> Any: ...

    async def run_blocking(self, work: Callable[[], T]) -> T: ...


class CurrentJob(Protocol):
    """The job that the run belongs to, and the lease under which the worker holds it."""

    @property
    def grant(self) -> c.Grant: ...

    @property
    def job(self) -> Job: ...

    @property
    def task(self) -> Task | None: ...

    def expired(self) -> bool: ...

    def stop(self, why: Stop) -> None: ...


class RunOutput(Protocol):
    """Where a run leaves its output and its evidence."""

    def write(self, output: str | bytes) -> None: ...

    def keep(self, name: str, content: Any) -> tuple[str, str, str, int, str]: ...


class CurrentRun(Protocol):
    """The run that a handler executes."""

    @property
    def held(self) -> CurrentJob: ...

    @property
    def run_id(self) -> str: ...

    @property
    def intent(self) -> Intent[..., Any]: ...

    @property
    def attempt(self) -> int: ...

    @property
    def payload(self) -> Any: ...

    @property
    def step(self) -> PlanStep | None: ...

    @property
    def results(self) -> Mapping[str, Any] | None: ...

    @property
    def resource(self) -> str | None: ...

    @property
    def traceparent(self) -> str | None: ...

    @property
    def files(self) -> RunOutput: ...

    @property
    def stopped(self) -> Stop | None: ...

    def require_lease(self) -> None: ...

    def record_activity(self) -> None: ...
