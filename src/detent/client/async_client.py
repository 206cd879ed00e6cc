"""The client for coroutines: the same words as the one for threads."""

import asyncio
from collections.abc import AsyncIterator
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


class AsyncClient:
    """The same for coroutines: `await (await client.submit("runQA")).result()`."""

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
        self._http = httpx2.AsyncClient(timeout=timeout_s, **self._address.options)

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """The operation's answer; its refusal is raised as the error that it is."""
        asking = self._address.asking(operation, arguments)
        while True:
            try:
                response = await self._http.request(**asking.request)
            except httpx2.HTTPError as error:
                pause_s = asking.unanswered(error)
            else:
                if response.is_success:
                    return asking.answer(response.content)
                pause_s = asking.refused(response.status_code, response.content)
            await asyncio.sleep(pause_s)

    async def submit(self, intent: str, payload: Any = None, **ways: Any) -> "AsyncHandle":
        """Queue a job, or with a `lifecycle` (board, review) a task; `key`: only once."""
        operation, arguments = submission(intent, payload, ways)
        made = (await self.call(operation, **arguments))["id"]
        return AsyncHandle(self, made, task=operation == "submit_task")

    def task(self, task_id: str) -> "AsyncHandle":
        """A handle on a task that is there already."""
        return AsyncHandle(self, task_id, task=True)

    def job(self, job_id: str) -> "AsyncHandle":
        """A handle on a job without a task."""
        return AsyncHandle(self, job_id, task=False)

    async def follow(self, cursor: int | None = None, **wish: Any) -> AsyncIterator[Json]:
        """Messages of the feed in order, for ever, as `Client.follow` gives them."""
        stream = Stream(self.url, cursor, wish, self._address.retries)
        while not stream.over:
            try:
                async with self._http.stream("GET", timeout=QUIET_S, **stream.request) as response:
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
    """One task, or one job alone, for coroutines."""

    def __init__(self, client: AsyncClient, id: str, *, task: bool) -> None:
        self.id = id
        self.noun = "task" if task else "job"
        self._client = client

    def __repr__(self) -> str:
        return f"<AsyncHandle {self.id}>"

    async def call(self, verb: str, **arguments: Any) -> Any:
        """An operation on it: `handle.call("accept")` asks for `accept_task`."""
        named = {f"{self.noun}_id": self.id}
        return await self._client.call(f"{verb}_{self.noun}", **named, **arguments)

    async def show(self) -> Json:
        """As it is now."""
        found: Json = await self.call("show")
        return found

    async def state(self) -> str:
        return str((await self.show())["state"])

    async def wait(self, timeout: float | None = None) -> Json:
        """Show it when its work is over. TimeoutError if that takes longer."""
        for pause_s in pauses(self.id, timeout):
            job = await self._job()
            if job is not None and ended(job):
                return job
            await asyncio.sleep(pause_s)
        raise AssertionError("the pauses end with a TimeoutError")

    async def result(self, timeout: float | None = None) -> Any:
        """Wait for the end; what the work gave back, or JobFailed."""
        return result_of(await self.wait(timeout))

    async def cancel(self, reason: str = "cancelled") -> Json:
        """Cancel it; running work is asked to stop."""
        moved: Json = await self.call("cancel", reason=reason)
        return moved

    async def signal(self, name: str, value: Any = None) -> Json:
        """Send a named fact; kept if nothing waits for it yet."""
        told: Json = await self.call("signal", name=name, value=value)
        return told

    async def answer(self, answer: Any) -> Json:
        """Answer the open question."""
        moved: Json = await self.call("answer", answer=answer)
        return moved

    async def _job(self) -> Json | None:
        """The job as it is now; of a task the latest, None before there is one."""
        found = await self.show()
        if self.noun == "task":
            job_id = found["job_id"]
            return None if job_id is None else await self._client.call("show_job", job_id=job_id)
        return found
