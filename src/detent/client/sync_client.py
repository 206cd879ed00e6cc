"""The blocking client: calls any operation by name, and has the methods of the embedded API."""

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import httpx2

from detent.client.shared import (
    MAX_SILENCE_S,
    TIMEOUT_S,
    Address,
    Json,
    Stream,
    ended,
    pauses,
    result_of,
    submission,
)
from detent.errors import Unavailable
from detent.outage import Outage


class Client:
    """Calls the operations of a gateway over HTTP. It does not import handlers.

    `url` is DETENT_URL of the environment, or `http://127.0.0.1:5680`, by default; `token` is
    DETENT_TOKEN, which is not sent to another address than DETENT_URL. A request that failed
    without effect is sent again, up to `retries` times.
    `ca_file` has the certificates that the gateway's is checked with, if the system's are not used.

    ```python
    with Client(url, token) as client:
        handle = client.submit("greet", {"name": "Ada"}, lifecycle="board")
        assert handle.result() == "Hello, Ada"
        assert client.call("show_task", task_id=handle.id)["state"] == "done"
    ```
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retries: int = 5,
        ca_file: str | None = None,
    ) -> None:
        self._address = Address(url, token, retries, ca_file)
        self.url = self._address.url
        self._http = httpx2.Client(timeout=timeout_s, **self._address.options)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """The result of an operation; an error of the gateway is raised as detent's own error."""
        request = self._address.request(operation, arguments)
        while True:
            try:
                response = self._http.request(**request.request)
            except httpx2.HTTPError as error:
                pause_s = request.unanswered(error)
            else:
                self._address.check_version(response.headers)
                if response.is_success:
                    return request.result(response.content)
                pause_s = request.refused(response.status_code, response.content)
            time.sleep(pause_s)

    def submit(self, intent: str, payload: Any = None, **options: Any) -> "Handle":
        """Submit a job, or with a `lifecycle` (board, review) a task; with a `key` at most once."""
        operation, arguments = submission(intent, payload, options)
        made = self.call(operation, **arguments)["id"]
        return Handle(self, made, task=operation == "submit_task")

    def task(self, task_id: str) -> "Handle":
        """A handle on an existing task."""
        return Handle(self, task_id, task=True)

    def job(self, job_id: str) -> "Handle":
        """A handle on an existing job without a task."""
        return Handle(self, job_id, task=False)

    def follow(self, cursor: int | None = None, **query: Any) -> Iterator[Json]:
        """Messages of the feed in order, without end: after a cursor, or from now on.

        `query` may have `project`, `task` and `names` (of events, separated by commas). After a
        lost connection it reconnects and resumes: no message is lost, and none comes twice.
        """
        stream = Stream(self.url, cursor, query, self._address.retries)
        while not stream.over:
            try:
                with self._http.stream("GET", timeout=MAX_SILENCE_S, **stream.request) as response:
                    if not response.is_success:
                        stream.refused(response.status_code, response.read())
                    for line in response.iter_lines():
                        yield from stream.read(line)
            except httpx2.HTTPError as error:
                stream.cut(error)
            if not stream.over:
                time.sleep(stream.pause_s())

    def close(self) -> None:
        """Close the connections."""
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
    """A task, or a job without a task: show it, wait for it, act on it. `id` is its id."""

    def __init__(self, client: Client, id: str, *, task: bool) -> None:
        self.id = id
        self.noun = "task" if task else "job"
        self._client = client

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    def call(self, verb: str, **arguments: Any) -> Any:
        """Call an operation on it: `handle.call("accept")` calls `accept_task`."""
        return self._client.call(f"{verb}_{self.noun}", **{f"{self.noun}_id": self.id}, **arguments)

    def show(self) -> Json:
        """Its present state with all fields."""
        found: Json = self.call("show")
        return found

    def state(self) -> str:
        """Its present state."""
        return str(self.show()["state"])

    def wait(self, timeout: float | None = None) -> Json:
        """Wait until its job has ended, and return it; TimeoutError after `timeout` seconds.

        A gateway that is unavailable for up to five minutes meanwhile does not end the wait.
        """
        outage = Outage()
        for pause_s in pauses(self.id, timeout):
            try:
                job = self._job()
            except Unavailable as error:
                outage.endure(error)
            else:
                outage.end()
                if job is not None and ended(job):
                    return job
            time.sleep(pause_s)
        raise AssertionError("the pauses end with a TimeoutError")

    def result(self, timeout: float | None = None) -> Any:
        """Wait until its job has ended, and return the result; raises JobFailed if it failed."""
        return result_of(self.wait(timeout))

    def cancel(self, reason: str = "cancelled") -> Json:
        """Cancel it; a running handler is asked to stop."""
        moved: Json = self.call("cancel", reason=reason)
        return moved

    def signal(self, name: str, value: Any = None) -> Json:
        """Send a signal; it is kept if nothing waits for it yet."""
        sent: Json = self.call("signal", name=name, value=value)
        return sent

    def answer(self, answer: Any) -> Json:
        """Answer its open question."""
        moved: Json = self.call("answer", answer=answer)
        return moved

    def _job(self) -> Json | None:
        """The job, or the latest job of a task; None if the task has none yet."""
        found = self.show()
        if self.noun == "task":
            job_id = found["job_id"]
            return None if job_id is None else self._client.call("show_job", job_id=job_id)
        return found
