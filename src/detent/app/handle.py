"""Handle: what a submission returns, to read the job, wait for its result, and act on it."""

import asyncio
import time
from typing import Any, Generic, TypeVar, cast

from detent.app.failures import JobFailed
from detent.app.values import fitted
from detent.engine import Engine
from detent.errors import NotFound
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import ENDED_JOB

R = TypeVar("R")

#: How often the job is read again if no notification arrives.
POLL_S = 0.5


class Handle(Generic[R]):
    """A submitted job, or a submitted task and its latest job.

    `job_id` is the id of the job; `task_id` is the id of the task, or None for a job without one.

    ```python
    @app.intent("add")
    def add(a: int, b: int) -> int:
        return a + b

    handle = add.submit(2, 3)
    assert handle.state() == "queued"
    harness.drain()
    assert handle.result() == 5
    ```
    """

    def __init__(
        self, engine: Engine, job_id: str, task_id: str | None, returns: Any, actor: c.Actor
    ) -> None:
        self.job_id, self.task_id = job_id, task_id
        self._engine, self._returns, self._actor = engine, returns, actor

    def __repr__(self) -> str:
        return f"<Handle {self.task_id or self.job_id}>"

    # -- reading ---------------------------------------------------------------------------

    def job(self) -> Job:
        """The job as it is now. Of a task that was run again, the latest job."""
        with self._engine.store.read() as view:
            if self.task_id is not None:
                task = next((task for task, _ in view.tasks([self.task_id])), None)
                self.job_id = (task and task.job_id) or self.job_id
            for job, _ in view.jobs([self.job_id]):
                return job
        raise NotFound(f"there is no job {self.job_id}", code="unknown_job")

    def task(self) -> Task | None:
        """The task as it is now; None for a job without a task."""
        with self._engine.store.read() as view:
            return next((task for task, _ in view.tasks([self.task_id or ""])), None)

    def state(self) -> str:
        """The state of the task, or of the job if it has no task."""
        task = self.task()
        return self.job().state if task is None else task.state

    def result(self, timeout: float | None = None) -> R:
        """Wait until the job has ended, and return the result of the handler.

        Raises JobFailed if the job failed or was cancelled, TimeoutError after `timeout` seconds.
        """
        until_s = _until_s(timeout)
        while (job := self._ended(timeout, until_s)) is None:
            pass
        return self._result_of(job)

    async def aresult(self, timeout: float | None = None) -> R:
        """As `result`, for coroutines."""
        until_s = _until_s(timeout)
        # Short waits: a thread cannot be cancelled, and the event loop waits for it at its end.
        while (job := await asyncio.to_thread(self._ended, timeout, until_s)) is None:
            pass
        return self._result_of(job)

    def _ended(self, timeout: float | None, until_s: float | None) -> Job | None:
        """The job if it has ended; else None, after a change of the store or a short wait."""
        store = self._engine.store
        with store.read() as view:
            head = view.head()
        job = self.job()
        if job.state in ENDED_JOB:
            return job
        left_s = POLL_S if until_s is None else min(POLL_S, until_s - time.monotonic())
        if left_s <= 0:
            raise TimeoutError(f"job {job.id} is {job.state} after {timeout} s")
        store.wait(head, left_s)
        return None

    def _result_of(self, job: Job) -> R:
        if job.state != "completed":
            error = job.error or job.cancel_reason
            raise JobFailed(job.id, job.state, job.error_class, error)
        return cast(R, fitted(job.result, self._returns))

    # -- acting ----------------------------------------------------------------------------

    def cancel(self, reason: str = "cancelled") -> str:
        """Cancel the job. Returns `cancelled`, or `requested` if a worker must stop the run first.

        ```python
        @app.intent("wait")
        def wait(run: Run) -> None:
            run.sleep(3_600)

        handle = wait.submit()
        assert handle.cancel("not needed") == "cancelled"
        assert handle.state() == "cancelled"
        ```
        """
        if self.task_id is not None:
            return cast(str, self._do(c.CancelTask(self.task_id, reason)))
        return cast(str, self._do(c.CancelJob(self.job_id, reason)))

    def signal(self, name: str, value: Any = None) -> str:
        """Send a signal to the job. It is kept if the job does not wait for it yet.

        ```python
        @app.intent("deploy")
        def deploy(run: Run) -> str:
            return run.wait_for("built")

        handle = deploy.submit()
        handle.signal("built", "v2")
        harness.drain()
        assert handle.result() == "v2"
        ```
        """
        return cast(str, self._do(c.SendSignal(self.job().id, name, value)))

    def answer(self, answer: Any) -> str:
        """Answer the open question of the job.

        ```python
        @app.intent("order")
        def order(run: Run) -> str:
            return run.ask("Tea or coffee?", ["tea", "coffee"])

        handle = order.submit()
        harness.drain()
        handle.answer("tea")
        harness.drain()
        assert handle.result() == "tea"
        ```
        """
        if self.task_id is not None:
            return cast(str, self._do(c.AnswerTask(self.task_id, answer)))
        return cast(str, self._do(c.AnswerJob(self.job_id, answer)))

    def _do(self, command: c.Command) -> Any:
        return self._engine.do(command, self._actor)


def _until_s(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + timeout
