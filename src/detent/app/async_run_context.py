"""AsyncRun: the run context of a coroutine. The same methods as Run, to be awaited."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from detent.app import effects, waits
from detent.app.intent import Intent
from detent.app.run_context import Run
from detent.app.run_info import RunInfo
from detent.app.run_operations import drive_async
from detent.app.subtasks import (
    Subtask,
    SubtaskOutcome,
    gather_subtasks,
    prepared_subtask,
    prepared_subtasks,
    submit_subtask,
    submit_subtasks,
)
from detent.app.waits import MISSING

T = TypeVar("T")
P = ParamSpec("P")


class AsyncRun(RunInfo):
    """The run context of a coroutine function. It has the methods of Run, to be awaited.

    ```python
    async def fetch(url: str) -> str:
        return f"page of {url}"

    @app.intent("crawl")
    async def crawl(run: AsyncRun, url: str) -> str:
        page = await run.step("fetch", fetch, url)
        await run.sleep(60)
        return page

    handle = crawl.submit("example.org")
    harness.drain(advance=True)
    assert handle.result() == "page of example.org"
    ```
    """

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def step(
        self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """As Run.step. The function can be a coroutine function."""
        return await drive_async(self._journal.step(name, function, args, kwargs), self._client)

    @overload
    async def effect(
        self,
        key: str,
        function: Callable[..., Awaitable[T]],
        /,
        *args: Any,
        policy: str = "idempotent",
        reconcile: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> T: ...
    @overload
    async def effect(
        self,
        key: str,
        function: Callable[..., T],
        /,
        *args: Any,
        policy: str = "idempotent",
        reconcile: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> T: ...

    async def effect(
        self,
        key: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        policy: str = "idempotent",
        reconcile: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """As Run.effect. The function and the callback can be coroutine functions."""
        operation = effects.effect(self._journal, key, function, args, kwargs, policy, reconcile)
        return await drive_async(operation, self._client)

    async def sleep(self, seconds: float, name: str = "sleep") -> None:
        """As Run.sleep."""
        await drive_async(waits.sleep(self._journal, seconds, name), self._client)

    async def wait_for(
        self,
        signal: str,
        timeout: float | None = None,
        default: Any = MISSING,
        name: str | None = None,
    ) -> Any:
        """As Run.wait_for."""
        operation = waits.wait_for(self._journal, signal, timeout, default, name)
        return await drive_async(operation, self._client)

    async def ask(
        self,
        question: str,
        choices: Sequence[Any] = (),
        timeout: float | None = None,
        default: Any = MISSING,
        name: str = "ask",
        *,
        other: bool = False,
    ) -> Any:
        """As Run.ask."""
        operation = waits.ask(self._journal, question, choices, timeout, default, name, other=other)
        return await drive_async(operation, self._client)

    @overload
    async def subtask(
        self,
        intent: Intent[..., T],
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask[T]: ...
    @overload
    async def subtask(
        self,
        intent: str,
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask[Any]: ...

    async def subtask(
        self,
        intent: str | Intent[..., Any],
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask[Any]:
        """As Run.subtask."""
        prepared = prepared_subtask(self._journal, intent, payload, arguments)
        operation = submit_subtask(self._journal, prepared, name or prepared.intent, not_before)
        return await drive_async(operation, self._client)

    @overload
    async def gather(
        self,
        subtasks: Sequence[Subtask[T]],
        name: str = "gather",
        *,
        outcomes: Literal[False] = False,
    ) -> list[T]: ...
    @overload
    async def gather(
        self, subtasks: Sequence[Subtask[Any]], name: str = "gather", *, outcomes: Literal[True]
    ) -> list[SubtaskOutcome]: ...

    async def gather(
        self, subtasks: Sequence[Subtask[Any]], name: str = "gather", *, outcomes: bool = False
    ) -> list[Any]:
        """As Run.gather."""
        operation = gather_subtasks(self._journal, subtasks, name, outcomes=outcomes)
        return await drive_async(operation, self._client)

    @overload
    async def map(
        self,
        intent: Intent[..., T],
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: Literal[False] = False,
    ) -> list[T]: ...
    @overload
    async def map(
        self,
        intent: str | Intent[..., Any],
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: Literal[True],
    ) -> list[SubtaskOutcome]: ...
    @overload
    async def map(
        self, intent: str, payloads: Iterable[Any], name: str | None = None
    ) -> list[Any]: ...

    async def map(
        self,
        intent: str | Intent[..., Any],
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: bool = False,
    ) -> list[Any]:
        """As Run.map."""
        prepared, name = prepared_subtasks(self._journal, intent, payloads, name)
        made = await drive_async(submit_subtasks(self._journal, prepared, name), self._client)
        operation = gather_subtasks(self._journal, made, f"map:{name}", outcomes=outcomes)
        return await drive_async(operation, self._client)

    async def progress(self, fraction: float | None = None, note: str | None = None) -> None:
        """As Run.progress."""
        await drive_async(self._journal.progress(fraction, note), self._client)

    async def log(self, text: str) -> None:
        """As Run.log."""
        await drive_async(self._journal.log(text), self._client)

    async def evidence(self, name: str, content: Any) -> None:
        """As Run.evidence."""
        await drive_async(self._journal.evidence(name, content), self._client)

    async def now(self) -> int:
        """As Run.now."""
        self._journal.check()
        lease_over = self._journal.run.held.expired
        return await self._client.run_blocking(lambda: self._client.now(lease_over))


def awaitable(run: Run | AsyncRun) -> AsyncRun:
    """The run with methods to be awaited, for a plain handler that has an event loop of its own."""
    return run if isinstance(run, AsyncRun) else AsyncRun(run._journal)
