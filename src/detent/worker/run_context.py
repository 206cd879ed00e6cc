"""What a handler is given as `run`: blocking for plain functions, awaitable for coroutines.

Both are thin: the rules are in `durable`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from detent.worker.effects import MISSING
from detent.worker.journal import Journal
from detent.worker.run_requests import drive, drive_async
from detent.worker.submission_order import Order
from detent.worker.subtasks import Subtask

if TYPE_CHECKING:
    from detent.worker.intent import Intent

T = TypeVar("T")
P = ParamSpec("P")


class RunFacts:
    """What a run knows about itself."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._line = journal.line

    @property
    def fence(self) -> int:
        """Rises with every claim: give it along with outside writes to shut out older ones."""
        return self._journal.grant.fence

    @property
    def id(self) -> str:
        return self._journal.attempt.run_id

    @property
    def job_id(self) -> str:
        return self._journal.grant.job_id

    @property
    def task_id(self) -> str | None:
        """None for a job without a task."""
        return self._journal.attempt.hold.job.task_id

    @property
    def attempt(self) -> int:
        """Counts from 1; going on after a wait is the same attempt."""
        return self._journal.attempt.number

    @property
    def payload(self) -> Any:
        """What the work is about, as it was submitted."""
        return self._journal.attempt.payload

    @property
    def results(self) -> Mapping[str, Any]:
        """In a plan: the results of the steps that this one needs, by name."""
        return self._journal.attempt.results or {}

    @property
    def resource(self) -> str | None:
        """In a plan: the resource that this step holds."""
        return self._journal.attempt.resource

    def effect_key(self, key: str) -> str:
        """The idempotency key of an effect: the same in every attempt, and no other job's."""
        return self._journal.effect_key(key)


class Run(RunFacts):
    """The run of a plain function: its methods block."""

    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function once; its result is remembered under the name and found again."""
        value: T = drive(self._journal.step(name, function, args, kwargs), self._line)
        return value

    def effect(
        self,
        key: str,
        function: Callable[..., T],
        /,
        *args: Any,
        policy: str = "idempotent",
        reconcile: Callable[[str], Any] | None = None,
        **kwargs: Any,
    ) -> T:
        """As `step`, for what reaches outside. A parameter `idempotency_key` is given the key.

        If it began and has no recorded end: `idempotent` calls it again, `reconcile` asks the
        callback for the result or NOT_DONE, `manual` asks a person.
        """
        doing = self._journal.effect(key, function, args, kwargs, policy, reconcile)
        value: T = drive(doing, self._line)
        return value

    def sleep(self, seconds: float, name: str = "sleep") -> None:
        """Go on after this time, also after a restart; meanwhile nothing is held."""
        drive(self._journal.sleep(seconds, name), self._line)

    def wait_for(
        self,
        signal: str,
        timeout: float | None = None,
        default: Any = MISSING,
        name: str | None = None,
    ) -> Any:
        """The value of a signal, also of an earlier one; over time, the default or Expired."""
        return drive(self._journal.wait_for(signal, timeout, default, name), self._line)

    def ask(
        self,
        question: str,
        choices: Sequence[Any] = (),
        timeout: float | None = None,
        default: Any = MISSING,
        name: str = "ask",
        *,
        other: bool = False,
    ) -> Any:
        """A person's answer; over time, the default or Expired.

        With choices only one of them is an answer; `other` allows any other answer as well.
        """
        doing = self._journal.ask(question, choices, timeout, default, name, other=other)
        return drive(doing, self._line)

    def subtask(
        self,
        intent: "str | Intent[..., Any]",
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask:
        """Submit a part of the work as a task of its own; `gather` waits for it.

        `not_before`: a time with its zone, or a delay such as `10m`. For the intent "plan", the
        argument `plan` has the steps.
        """
        order = _order(self._journal, intent, payload, arguments)
        doing = self._journal.subtask(order, name or order.intent, not_before)
        return drive(doing, self._line)

    def gather(
        self, subtasks: Sequence[Subtask], name: str = "gather", *, outcomes: bool = False
    ) -> list[Any]:
        """Wait until all have ended; their results, or with `outcomes` what became of each.

        A subtask that failed raises SubtaskFailed. With `outcomes` it does not, and it is settled:
        the task does not wait for it when the handler has ended.
        """
        return drive(self._journal.gather(subtasks, name, outcomes=outcomes), self._line)

    def map(
        self,
        intent: "str | Intent[..., Any]",
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: bool = False,
    ) -> list[Any]:
        """A subtask for each payload, made together; wait for all, and give the results in order.

        What the payloads are made from must be the same in every pass: put it into a step.
        """
        orders, name = _orders(self._journal, intent, payloads, name)
        made = drive(self._journal.subtasks(orders, name), self._line)
        return self.gather(made, f"map:{name}", outcomes=outcomes)

    def progress(self, fraction: float | None = None, note: str | None = None) -> None:
        """Say how far it is, from 0 to 1, and what it does."""
        drive(self._journal.progress(fraction, note), self._line)

    def log(self, text: str) -> None:
        """A line of the run's output."""
        drive(self._journal.log(text), self._line)

    def evidence(self, name: str, content: Any) -> None:
        """Keep a file (a Path), bytes, text, or a JSON value with the run."""
        drive(self._journal.evidence(name, content), self._line)

    def now(self) -> int:
        """The store's clock in microseconds; inside `step` it is remembered."""
        self._journal.check()
        return self._line.now()


class AsyncRun(RunFacts):
    """The run of a coroutine: the same names, to be awaited."""

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
        """See Run.step; the function may be a coroutine function."""
        return await drive_async(self._journal.step(name, function, args, kwargs), self._line)

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
        """See Run.effect; function and callback may be coroutine functions."""
        doing = self._journal.effect(key, function, args, kwargs, policy, reconcile)
        return await drive_async(doing, self._line)

    async def sleep(self, seconds: float, name: str = "sleep") -> None:
        """See Run.sleep."""
        await drive_async(self._journal.sleep(seconds, name), self._line)

    async def wait_for(
        self,
        signal: str,
        timeout: float | None = None,
        default: Any = MISSING,
        name: str | None = None,
    ) -> Any:
        """See Run.wait_for."""
        return await drive_async(self._journal.wait_for(signal, timeout, default, name), self._line)

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
        """See Run.ask."""
        doing = self._journal.ask(question, choices, timeout, default, name, other=other)
        return await drive_async(doing, self._line)

    async def subtask(
        self,
        intent: "str | Intent[..., Any]",
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask:
        """See Run.subtask."""
        order = _order(self._journal, intent, payload, arguments)
        doing = self._journal.subtask(order, name or order.intent, not_before)
        return await drive_async(doing, self._line)

    async def gather(
        self, subtasks: Sequence[Subtask], name: str = "gather", *, outcomes: bool = False
    ) -> list[Any]:
        """See Run.gather."""
        doing = self._journal.gather(subtasks, name, outcomes=outcomes)
        return await drive_async(doing, self._line)

    async def map(
        self,
        intent: "str | Intent[..., Any]",
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: bool = False,
    ) -> list[Any]:
        """See Run.map."""
        orders, name = _orders(self._journal, intent, payloads, name)
        made = await drive_async(self._journal.subtasks(orders, name), self._line)
        return await self.gather(made, f"map:{name}", outcomes=outcomes)

    async def progress(self, fraction: float | None = None, note: str | None = None) -> None:
        """See Run.progress."""
        await drive_async(self._journal.progress(fraction, note), self._line)

    async def log(self, text: str) -> None:
        """See Run.log."""
        await drive_async(self._journal.log(text), self._line)

    async def evidence(self, name: str, content: Any) -> None:
        """See Run.evidence."""
        await drive_async(self._journal.evidence(name, content), self._line)

    async def now(self) -> int:
        """See Run.now."""
        self._journal.check()
        return await self._line.aside(self._line.now)


def _order(
    journal: Journal, intent: "str | Intent[..., Any]", payload: Any, arguments: Mapping[str, Any]
) -> Order:
    return journal.attempt.intent.app.suborder(intent, payload, arguments)


def _orders(
    journal: Journal, intent: "str | Intent[..., Any]", payloads: Iterable[Any], name: str | None
) -> tuple[list[Order], str]:
    """What each of many subtasks is asked to do, and the name that they go by together."""
    fallback = intent if isinstance(intent, str) else intent.name
    return [_order(journal, intent, payload, {}) for payload in payloads], name or fallback
