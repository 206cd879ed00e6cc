"""Operations of a run as generators: they yield requests, which a driver performs or awaits.

So each rule of `run` is written once, for plain functions and for coroutines.
"""

import inspect
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from detent.errors import Invalid
from detent.kernel import commands as c
from detent.worker.engine_client import Line

T = TypeVar("T")


class Call(NamedTuple):
    """Call the user's function."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}

    def perform(self, _: Line) -> Any:
        value = self.function(*self.args, **self.kwargs)
        if inspect.iscoroutine(value):
            value.close()
            raise Invalid(
                "an async function needs an async handler: make the handler async.",
                field="function",
            )
        return value

    async def perform_async(self, _: Line) -> Any:
        value = self.function(*self.args, **self.kwargs)
        return await value if inspect.isawaitable(value) else value


class Tell(NamedTuple):
    """Have the engine decide a command; `over`: the lease of the run is over."""

    command: c.Command
    under: c.Grant | None
    over: Callable[[], bool]

    def perform(self, line: Line) -> Any:
        return line.tell(self.command, self.under, self.over)

    async def perform_async(self, line: Line) -> Any:
        return await line.tell_async(self.command, self.under, self.over)


class TellAll(NamedTuple):
    """Have the engine decide many commands together; the answer has a result or error for each."""

    commands: Sequence[c.Command]
    under: c.Grant
    over: Callable[[], bool]

    def perform(self, line: Line) -> list[Any]:
        return line.tell_all(self.commands, self.under, self.over)

    async def perform_async(self, line: Line) -> list[Any]:
        return await line.aside(lambda: self.perform(line))


class Aside(NamedTuple):
    """Read or write something that blocks for a moment."""

    work: Callable[[], Any]

    def perform(self, _: Line) -> Any:
        return self.work()

    async def perform_async(self, line: Line) -> Any:
        return await line.aside(self.work)


Request = Call | Tell | TellAll | Aside
Doing = Generator[Request, Any, T]


def drive(doing: Doing[T], line: Line) -> T:
    """Carry an operation through, blocking."""
    try:
        request = next(doing)
        while True:
            try:
                answer = request.perform(line)
            except BaseException as error:
                request = doing.throw(error)
            else:
                request = doing.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def drive_async(doing: Doing[T], line: Line) -> T:
    """Carry an operation through, awaiting."""
    try:
        request = next(doing)
        while True:
            try:
                answer = await request.perform_async(line)
            except BaseException as error:
                request = doing.throw(error)
            else:
                request = doing.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value
