"""The client for threads: any operation by its name, and the words of the embedded API."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx2

from detent.client.retry import (
    QUIET_S,
    TIMEOUT_S,
    Address,
    Json,
    Stream,
    ended,
    pauses,
    result_of,
    submission,
)


class Client:
    """Ask a gateway: `client.submit("runQA", {…}).result()`, `client.call("show_task", …)`."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: int = 5,
    ) -> None:
        self._address = Address(url, token, retries)
        self.url = self._address.url
        self._http = httpx2.Client(timeout=timeout_s, **self._address.options)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """The operation's answer; its refusal is raised as the error that it is."""
        asking = self._address.asking(operation, arguments)
        while True:
            try:
                response = self._http.request(**asking.request)
            except httpx2.HTTPError as error:
                pause_s = asking.unanswered(error)
            else:
                if response.is_success:
                    return asking.answer(response.content)
                pause_s = asking.refused(response.status_code, response.content)
            time.sleep(pause_s)

    def submit(self, intent: str, payload: Any = None, **ways: Any) -> "Handle":
        """Queue a job, or with a `lifecycle` (board, review) a task; `key`: only once."""
        operation, arguments = submission(intent, payload, ways)
        made = self.call(operation, **arguments)["id"]
        return Handle(self, made, task=operation == "submit_task")

    def task(self, task_id: str) -> "Handle":
        """A handle on a task that is there already."""
        return Handle(self, task_id, task=True)

    def job(self, job_id: str) -> "Handle":
        """A handle on a job without a task."""
        return Handle(self, job_id, task=False)

    def follow(self, cursor: int | None = None, **wish: Any) -> Iterator[Json]:
        """Messages of the feed in order, for ever: after a cursor, or from now on.

        `wish` may name a project, a task, and names of events by commas. A lost connection is
        made again where it ended, so that nothing is missed and nothing comes twice.
        """
        stream = Stream(self.url, cursor, wish, self._address.retries)
        while not stream.over:
            try:
                with self._http.stream("GET", timeout=QUIET_S, **stream.request) as response:
                    if not response.is_success:
                        stream.refused(response.status_code, response.read())
                    for line in response.iter_lines():
                        yield from stream.read(line)
            except httpx2.HTTPError as error:
                stream.cut(error)
            if not stream.over:
                time.sleep(stream.pause_s())

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


class Handle:
    """One task, or one job alone: look at it, wait for it, act on it."""

    def __init__(self, client: Client, id: str, *, task: bool) -> None:
        self.id = id
        self.noun = "task" if task else "job"
        self._client = client

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    def call(self, verb: str, **arguments: Any) -> Any:
        """An operation on it: `handle.call("accept")` asks for `accept_task`."""
        return self._client.call(f"{verb}_{self.noun}", **{f"{self.noun}_id": self.id}, **arguments)

    def show(self) -> Json:
        """As it is now."""
        found: Json = self.call("show")
        return found

    def state(self) -> str:
        return str(self.show()["state"])

    def wait(self, timeout: float | None = None) -> Json:
        """Show it when its work is over. TimeoutError if that takes longer."""
        for pause_s in pauses(self.id, timeout):
            job = self._job()
            if job is not None and ended(job):
                return job
            time.sleep(pause_s)
        raise AssertionError("the pauses end with a TimeoutError")

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the end; what the work gave back, or JobFailed."""
        return result_of(self.wait(timeout))

    def cancel(self, reason: str = "cancelled") -> Json:
        """Cancel it; running work is asked to stop."""
        moved: Json = self.call("cancel", reason=reason)
        return moved

    def signal(self, name: str, value: Any = None) -> Json:
        """Send a named fact; kept if nothing waits for it yet."""
        told: Json = self.call("signal", name=name, value=value)
        return told

    def answer(self, answer: Any) -> Json:
        """Answer the open question."""
        moved: Json = self.call("answer", answer=answer)
        return moved

    def _job(self) -> Json | None:
        """The job as it is now; of a task the latest, None before there is one."""
        found = self.show()
        if self.noun == "task":
            job_id = found["job_id"]
            return None if job_id is None else self._client.call("show_job", job_id=job_id)
        return found
