"""What a submission gives back: a handle on the job, to look at it, wait for it, and act on it."""

import asyncio
import time
from typing import Any, Generic, TypeVar, cast

from detent.engine import Engine
from detent.errors import NotFound
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import ENDED_JOB
from detent.worker.failures import JobFailed
from detent.worker.values import fitted

R = TypeVar("R")

#: A lost notification costs at most this.
LOOK_S = 0.5


class Handle(Generic[R]):
    """One job, of a task or alone."""

    def __init__(
        self, engine: Engine, job_id: str, task_id: str | None, returns: Any, actor: c.Actor
    ) -> None:
        self.job_id, self.task_id = job_id, task_id
        self._engine, self._returns, self._actor = engine, returns, actor

    def __repr__(self) -> str:
        return f"<Handle {self.task_id or self.job_id}>"

    # -- looking ---------------------------------------------------------------------------

    def job(self) -> Job:
        """The job as it is now; of a task that was run again, the latest."""
        with self._engine.store.read() as view:
            if self.task_id is not None:
                task = next((task for task, _ in view.tasks([self.task_id])), None)
                self.job_id = (task and task.job_id) or self.job_id
            for job, _ in view.jobs([self.job_id]):
                return job
        raise NotFound(f"there is no job {self.job_id}", code="unknown_job")

    def task(self) -> Task | None:
        with self._engine.store.read() as view:
            return next((task for task, _ in view.tasks([self.task_id or ""])), None)

    def state(self) -> str:
        """The task's state, or the job's if it has no task."""
        task = self.task()
        return self.job().state if task is None else task.state

    def result(self, timeout: float | None = None) -> R:
        """Wait for the end; the handler's result, or JobFailed. TimeoutError if it takes longer."""
        until_s = None if timeout is None else time.monotonic() + timeout
        store = self._engine.store
        while True:
            with store.read() as view:
                head = view.head()
            job = self.job()
            if job.state in ENDED_JOB:
                return self._result_of(job)
            left_s = LOOK_S if until_s is None else min(LOOK_S, until_s - time.monotonic())
            if left_s <= 0:
                raise TimeoutError(f"job {job.id} is {job.state} after {timeout} s")
            store.wait(head, left_s)

    async def aresult(self, timeout: float | None = None) -> R:
        """The same for a coroutine."""
        return await asyncio.to_thread(self.result, timeout)

    def _result_of(self, job: Job) -> R:
        if job.state != "completed":
            error = job.error or job.cancel_reason
            raise JobFailed(job.id, job.state, job.error_class, error)
        return cast(R, fitted(job.result, self._returns))

    # -- acting ----------------------------------------------------------------------------

    def cancel(self, reason: str = "cancelled") -> str:
        """`cancelled` now, or `requested`: its worker confirms when the work has stopped."""
        if self.task_id is not None:
            return cast(str, self._do(c.CancelTask(self.task_id, reason)))
        return cast(str, self._do(c.CancelJob(self.job_id, reason)))

    def signal(self, name: str, value: Any = None) -> str:
        """Send a named fact; kept if nothing waits for it yet."""
        return cast(str, self._do(c.SendSignal(self.job().id, name, value)))

    def answer(self, answer: Any) -> str:
        """Answer the open question."""
        if self.task_id is not None:
            return cast(str, self._do(c.AnswerTask(self.task_id, answer)))
        return cast(str, self._do(c.AnswerJob(self.job_id, answer)))

    def _do(self, command: c.Command) -> Any:
        return self._engine.do(command, self._actor)
