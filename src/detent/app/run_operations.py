"""Operations of a run as generators that yield requests; a driver performs or awaits each request.

Each rule of `run` is therefore written once, for plain functions and for coroutines.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from detent.app.run_interface import EngineConnection
from detent.errors import Invalid
from detent.kernel import commands as c

T = TypeVar("T")


class Call(NamedTuple):
    """Call a function of the handler's code."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}

    def perform(self, _: EngineConnection) -> Any:
        value = self.function(*self.args, **self.kwargs)
        if inspect.iscoroutine(value):
            value.close()
            name = getattr(self.function, "__qualname__", repr(self.function))
            raise Invalid(
                f"{name} is an async function, and the handler is not async. Declare the handler "
                "with `async def`, or pass a plain function.",
                field="function",
            )
        return value

    async def perform_async(self, _: EngineConnection) -> Any:
        value = self.function(*self.args, **self.kwargs)
        return await value if inspect.isawaitable(value) else value


class ExecuteCommand(NamedTuple):
    """Execute one command. While the store is unavailable, retry until `lease_over` is true."""

    command: c.Command
    grant: c.Grant | None
    lease_over: Callable[[], bool]

    def perform(self, client: EngineConnection) -> Any:
        return client.execute(self.command, self.grant, self.lease_over)

    async def perform_async(self, client: EngineConnection) -> Any:
        return await client.execute_async(self.command, self.grant, self.lease_over)


class ExecuteCommands(NamedTuple):
    """Execute many commands in one transaction; the result is an answer or an error for each."""

    commands: Sequence[c.Command]
    grant: c.Grant
    lease_over: Callable[[], bool]

    def perform(self, client: EngineConnection) -> list[Any]:
        return client.execute_all(self.commands, self.grant, self.lease_over)

    async def perform_async(self, client: EngineConnection) -> list[Any]:
        return await client.run_blocking(lambda: self.perform(client))


class BlockingCall(NamedTuple):
    """Read or write something that blocks: on a thread, if the handler is a coroutine."""

    work: Callable[[], Any]

    def perform(self, _: EngineConnection) -> Any:
        return self.work()

    async def perform_async(self, client: EngineConnection) -> Any:
        return await client.run_blocking(self.work)


Request = Call | ExecuteCommand | ExecuteCommands | BlockingCall
Operation = Generator[Request, Any, T]


def drive(operation: Operation[T], client: EngineConnection) -> T:
    """Perform the requests of an operation and return its result."""
    try:
        request = next(operation)
        while True:
            try:
                answer = request.perform(client)
            except BaseException as error:
                request = operation.throw(error)
            else:
                request = operation.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def drive_async(operation: Operation[T], client: EngineConnection) -> T:
    """Await the requests of an operation and return its result."""
    try:
        request = next(operation)
        while True:
            try:
                answer = await request.perform_async(client)
            except BaseException as error:
                request = operation.throw(error)
            else:
                request = operation.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value
