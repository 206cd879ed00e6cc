"""The client for coroutines, with the methods of the blocking client."""

import asyncio
from collections.abc import AsyncIterator
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


class AsyncClient:
    """The client for coroutines: the methods of Client, to be awaited.

    ```python
    async def main() -> str:
        async with AsyncClient(url, token) as client:
            handle = await client.submit("greet", {"name": "Ada"})
            return await handle.result()

    assert asyncio.run(main()) == "Hello, Ada"
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
        self._http = httpx2.AsyncClient(timeout=timeout_s, **self._address.options)

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """The result of an operation; an error of the gateway is raised as detent's own error."""
        request = self._address.request(operation, arguments)
        while True:
            try:
                response = await self._http.request(**request.request)
            except httpx2.HTTPError as error:
                pause_s = request.unanswered(error)
            else:
                self._address.check_version(response.headers)
                if response.is_success:
                    return request.result(response.content)
                pause_s = request.refused(response.status_code, response.content)
            await asyncio.sleep(pause_s)

    async def submit(self, intent: str, payload: Any = None, **options: Any) -> "AsyncHandle":
        """Submit a job, or with a `lifecycle` (board, review) a task; with a `key` at most once."""
        operation, arguments = submission(intent, payload, options)
        made = (await self.call(operation, **arguments))["id"]
        return AsyncHandle(self, made, task=operation == "submit_task")

    def task(self, task_id: str) -> "AsyncHandle":
        """A handle on an existing task."""
        return AsyncHandle(self, task_id, task=True)

    def job(self, job_id: str) -> "AsyncHandle":
        """A handle on an existing job without a task."""
        return AsyncHandle(self, job_id, task=False)

    async def follow(self, cursor: int | None = None, **query: Any) -> AsyncIterator[Json]:
        """Messages of the feed in order, without end, as `Client.follow` returns them."""
        stream = Stream(self.url, cursor, query, self._address.retries)
        while not stream.over:
            try:
                async with self._http.stream(
                    "GET", timeout=MAX_SILENCE_S, **stream.request
                ) as response:
                    if not response.is_success:
                        stream.refused(response.status_code, await response.aread())
                    async for line in response.aiter_lines():
                        for message in stream.read(line):
                            yield message
            except httpx2.HTTPError as error:
                stream.cut(error)
            if not stream.over:
                await asyncio.sleep(stream.pause_s())

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()


class AsyncHandle:
    """A task, or a job without a task, for coroutines; `id` is its id."""

    def __init__(self, client: AsyncClient, id: str, *, task: bool) -> None:
        self.id = id
        self.noun = "task" if task else "job"
        self._client = client

    def __repr__(self) -> str:
        return f"<AsyncHandle {self.id}>"

    async def call(self, verb: str, **arguments: Any) -> Any:
        """Call an operation on it: `handle.call("accept")` calls `accept_task`."""
        named = {f"{self.noun}_id": self.id}
        return await self._client.call(f"{verb}_{self.noun}", **named, **arguments)

    async def show(self) -> Json:
        """Its present state with all fields."""
        found: Json = await self.call("show")
        return found

    async def state(self) -> str:
        """Its present state."""
        return str((await self.show())["state"])

    async def wait(self, timeout: float | None = None) -> Json:
        """Wait until its job has ended, and return it; TimeoutError after `timeout` seconds.

        A gateway that is unavailable for up to five minutes meanwhile does not end the wait.
        """
        outage = Outage()
        for pause_s in pauses(self.id, timeout):
            try:
                job = await self._job()
            except Unavailable as error:
                outage.endure(error)
            else:
                outage.end()
                if job is not None and ended(job):
                    return job
            await asyncio.sleep(pause_s)
        raise AssertionError("the pauses end with a TimeoutError")

    async def result(self, timeout: float | None = None) -> Any:
        """Wait until its job has ended, and return the result; raises JobFailed if it failed."""
        return result_of(await self.wait(timeout))

    async def cancel(self, reason: str = "cancelled") -> Json:
        """Cancel it; a running handler is asked to stop."""
        moved: Json = await self.call("cancel", reason=reason)
        return moved

    async def signal(self, name: str, value: Any = None) -> Json:
        """Send a signal; it is kept if nothing waits for it yet."""
        sent: Json = await self.call("signal", name=name, value=value)
        return sent

    async def answer(self, answer: Any) -> Json:
        """Answer its open question."""
        moved: Json = await self.call("answer", answer=answer)
        return moved

    async def _job(self) -> Json | None:
        """The job, or the latest job of a task; None if the task has none yet."""
        found = await self.show()
        if self.noun == "task":
            job_id = found["job_id"]
            return None if job_id is None else await self._client.call("show_job", job_id=job_id)
        return found
