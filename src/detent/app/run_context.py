"""Run and AsyncRun: what a handler gets as its parameter `run`.

The methods of Run block, those of AsyncRun are awaited. Both call the same operations, which are in
`journal`, `waits`, `effects` and `subtasks`. The examples in the docstrings of Run are executed by
tests, and are printed in the reference of the Python API.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar, overload

from detent.app import effects, waits
from detent.app.intent import Intent
from detent.app.run_info import RunInfo
from detent.app.run_operations import drive
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


class Run(RunInfo):
    """The run context of a plain function. Its methods block.

    A handler gets it if it has a parameter named `run`. When a job continues after a wait, a retry
    or a crash, detent calls the handler again from the top. Durable steps, effects, waits and
    subtasks that were recorded before are not executed again: they return what was recorded. Each
    of them is known by its name, so a name can be used once in a handler.
    """

    def step(self, name: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Execute a durable step: call the function and record its result as a checkpoint.

        In a later execution of the handler, the method returns the recorded result and does not
        call the function. If the process dies after the call and before the record, the function
        is called again; use `effect` for calls that must not be repeated. The result must be JSON
        or a dataclass, msgspec struct or pydantic model, up to 1 MiB.

        A durable step is a call in a handler. A *plan step* is a part of a plan: it has an intent
        and runs of its own.

        ```python
        calls = []

        def count_rows(path: str) -> int:
            calls.append(path)
            return 3

        @app.intent("import")
        def import_file(run: Run, path: str) -> int:
            rows = run.step("count", count_rows, path)
            run.sleep(60)
            return rows

        handle = import_file.submit("a.csv")
        harness.drain(advance=True)
        assert handle.result() == 3
        assert calls == ["a.csv"]  # the handler was called twice, the step once
        ```
        """
        value: T = drive(self._journal.step(name, function, args, kwargs), self._client)
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
        """Execute a call that changes something outside, and record its result as a checkpoint.

        The start is recorded before the call. If a run finds an effect that has started and has no
        result, `policy` decides: `idempotent` calls the function again with the same key;
        `reconcile` calls the callback with the key, which returns the result or NOT_DONE;
        `manual` asks a person. A function with a parameter `idempotency_key` gets the key.

        ```python
        charged = {}

        def charge(amount: int, idempotency_key: str) -> str:
            charged[idempotency_key] = amount
            return f"charge-{len(charged)}"

        @app.intent("pay")
        def pay(run: Run, amount: int) -> str:
            return run.effect("charge", charge, amount)

        handle = pay.submit(20)
        harness.crash(before="charge")  # after the call, before its result is recorded
        harness.drain(advance=True)
        assert handle.result() == "charge-1"
        assert list(charged.values()) == [20]
        ```
        """
        operation = effects.effect(self._journal, key, function, args, kwargs, policy, reconcile)
        value: T = drive(operation, self._client)
        return value

    def sleep(self, seconds: float, name: str = "sleep") -> None:
        """Continue after this time. Meanwhile the job has no worker, no thread and no lease.

        `seconds`: from 0 to 315,360,000 (10 years).

        ```python
        @app.intent("remind")
        def remind(run: Run) -> str:
            run.sleep(3 * 86_400)
            return "reminded"

        handle = remind.submit()
        harness.drain()
        assert handle.state() == "parked"
        harness.drain(advance=True)
        assert handle.result() == "reminded"
        ```
        """
        drive(waits.sleep(self._journal, seconds, name), self._client)

    def wait_for(
        self,
        signal: str,
        timeout: float | None = None,
        default: Any = MISSING,
        name: str | None = None,
    ) -> Any:
        """Wait for a signal and return its value. A signal that was sent earlier counts.

        After `timeout` seconds the method returns `default`; without a default it raises Expired.

        ```python
        @app.intent("ship")
        def ship(run: Run) -> str:
            return run.wait_for("paid", timeout=86_400, default="not paid")

        handle, late = ship.submit(), ship.submit()
        harness.drain()
        handle.signal("paid", "by card")
        harness.drain(advance=True)
        assert handle.result() == "by card"
        assert late.result() == "not paid"
        ```
        """
        operation = waits.wait_for(self._journal, signal, timeout, default, name)
        return drive(operation, self._client)

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
        """Ask a person a question and return the answer. The job holds no worker while it waits.

        - `question`: the text that the inbox and the dashboard show.
        - `choices`: the answers to choose from, as JSON values; another answer is refused. Without
          choices, any answer is accepted.
        - `timeout`: the number of seconds to wait; None waits without a limit.
        - `default`: the answer after `timeout` seconds. Without a default, the method raises
          Expired.
        - `name`: the name under which the answer is recorded. Each question of a handler needs a
          name of its own.
        - `other`: with True, an answer that is not among the choices is accepted too.

        ```python
        @app.intent("publish")
        def publish(run: Run) -> str:
            answer = run.ask("Publish the report?", choices=["yes", "no"])
            return "published" if answer == "yes" else "kept"

        handle = publish.submit()
        harness.drain()
        handle.answer("yes")
        harness.drain()
        assert handle.result() == "published"

        @app.intent("name-release")
        def name_release(run: Run) -> str:
            return run.ask("Its name?", ["Ada", "Grace"], timeout=3_600, default="Ada", other=True)

        named, silent = name_release.submit(), name_release.submit()
        harness.drain()
        named.answer("Edsger")
        harness.drain(advance=True)
        assert (named.result(), silent.result()) == ("Edsger", "Ada")
        ```
        """
        operation = waits.ask(self._journal, question, choices, timeout, default, name, other=other)
        return drive(operation, self._client)

    @overload
    def subtask(
        self,
        intent: Intent[..., T],
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask[T]: ...
    @overload
    def subtask(
        self,
        intent: str,
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask[Any]: ...

    def subtask(
        self,
        intent: str | Intent[..., Any],
        payload: Any = None,
        *,
        name: str | None = None,
        not_before: str | None = None,
        **arguments: Any,
    ) -> Subtask[Any]:
        """Submit a subtask and return immediately. `gather` waits for it and returns its result.

        The arguments of the handler are given by name, or all together as `payload`. `name` is
        the intent's name by default; give each subtask of one intent a name of its own.
        `not_before` is a time with its zone, or a delay such as `10m`. For the intent `plan`, pass
        the plan steps as the argument `plan`.

        ```python
        @app.intent("square")
        def square(n: int) -> int:
            return n * n

        @app.intent("sum")
        def sum_of_squares(run: Run) -> int:
            parts = [run.subtask(square, n=n, name=f"square-{n}") for n in (2, 3)]
            return sum(run.gather(parts))

        handle = sum_of_squares.submit()
        harness.drain()
        assert handle.result() == 13
        ```
        """
        prepared = prepared_subtask(self._journal, intent, payload, arguments)
        operation = submit_subtask(self._journal, prepared, name or prepared.intent, not_before)
        return drive(operation, self._client)

    @overload
    def gather(
        self,
        subtasks: Sequence[Subtask[T]],
        name: str = "gather",
        *,
        outcomes: Literal[False] = False,
    ) -> list[T]: ...
    @overload
    def gather(
        self, subtasks: Sequence[Subtask[Any]], name: str = "gather", *, outcomes: Literal[True]
    ) -> list[SubtaskOutcome]: ...

    def gather(
        self, subtasks: Sequence[Subtask[Any]], name: str = "gather", *, outcomes: bool = False
    ) -> list[Any]:
        """Wait until all subtasks have ended, and return their results in order.

        A subtask that failed raises SubtaskFailed. With `outcomes=True` the method returns a
        SubtaskOutcome for each subtask instead: its final `state`, its `result`, its `error`, and
        `succeeded`. Then a failed subtask raises nothing, and the task does not wait for it after
        the handler has returned.

        ```python
        @app.intent("check", retry={"retries": 0})
        def check(n: int) -> int:
            if n < 0:
                raise ValueError("negative")
            return n

        @app.intent("check-all")
        def check_all(run: Run) -> list[str]:
            parts = [run.subtask(check, n=n, name=f"check-{n}") for n in (1, -1)]
            return [end.state for end in run.gather(parts, outcomes=True)]

        handle = check_all.submit()
        harness.drain(advance=True)
        assert handle.result() == ["completed", "failed"]
        ```
        """
        operation = gather_subtasks(self._journal, subtasks, name, outcomes=outcomes)
        return drive(operation, self._client)

    @overload
    def map(
        self,
        intent: Intent[..., T],
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: Literal[False] = False,
    ) -> list[T]: ...
    @overload
    def map(
        self,
        intent: str | Intent[..., Any],
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: Literal[True],
    ) -> list[SubtaskOutcome]: ...
    @overload
    def map(self, intent: str, payloads: Iterable[Any], name: str | None = None) -> list[Any]: ...

    def map(
        self,
        intent: str | Intent[..., Any],
        payloads: Iterable[Any],
        name: str | None = None,
        *,
        outcomes: bool = False,
    ) -> list[Any]:
        """Submit a subtask for each payload, wait for all, and return their results in order.

        Up to 200 subtasks are submitted in one transaction. There must be the same number of
        payloads in every execution of the handler: if they are read from outside, read them in a
        durable step. `outcomes` as in `gather`.

        ```python
        @app.intent("length")
        def length(text: str) -> int:
            return len(text)

        @app.intent("lengths")
        def lengths(run: Run, texts: list[str]) -> list[int]:
            return run.map(length, [{"text": text} for text in texts])

        handle = lengths.submit(["a", "bcd"])
        harness.drain()
        assert handle.result() == [1, 3]
        ```
        """
        prepared, name = prepared_subtasks(self._journal, intent, payloads, name)
        made = drive(submit_subtasks(self._journal, prepared, name), self._client)
        operation = gather_subtasks(self._journal, made, f"map:{name}", outcomes=outcomes)
        return drive(operation, self._client)

    def progress(self, fraction: float | None = None, note: str | None = None) -> None:
        """Report progress: `fraction` is a number from 0 (nothing) to 1 (all), `note` is text.

        Each can be given alone. Other numbers raise Invalid. The call is also a sign of life for
        the limit `idle_timeout_s`.

        ```python
        @app.intent("copy")
        def copy(run: Run, files: list[str]) -> None:
            for number, file in enumerate(files, start=1):
                run.progress(number / len(files), note=f"copied {file}")

        handle = copy.submit(["a", "b"])
        harness.drain()
        assert harness.events(handle.job_id).count("run_progressed") == 2
        ```
        """
        drive(self._journal.progress(fraction, note), self._client)

    def log(self, text: str) -> None:
        """Append a line to the output of the run. `detent logs` and the dashboard show it.

        ```python
        @app.intent("greet")
        def greet(run: Run, name: str) -> str:
            run.log(f"greeting {name}")
            return run.id

        handle = greet.submit("Ada")
        harness.drain()
        assert harness.files(handle.result()).path.joinpath("output.log").exists()
        ```
        """
        drive(self._journal.log(text), self._client)

    def evidence(self, name: str, content: Any) -> None:
        """Keep a file with the run as evidence.

        `content` is a Path, bytes, text, or a value that is written as JSON. `name` is a plain file
        name; its ending decides the evidence type.

        ```python
        @app.intent("measure")
        def measure(run: Run) -> None:
            run.evidence("measurements.json", {"ms": [12, 14]})

        handle = measure.submit()
        harness.drain()
        assert "evidence_added" in harness.events(handle.job_id)
        ```
        """
        drive(self._journal.evidence(name, content), self._client)

    def now(self) -> int:
        """The time of the store, in microseconds since 1970.

        Call it in a durable step if the handler must see the same time in every execution.

        ```python
        @app.intent("stamp")
        def stamp(run: Run) -> int:
            started = run.step("started", run.now)
            run.sleep(60)
            return started

        handle = stamp.submit()
        begin = harness.clock.now
        harness.drain(advance=True)
        assert handle.result() == begin
        ```
        """
        self._journal.check()
        return self._client.now(self._journal.run.held.expired)
