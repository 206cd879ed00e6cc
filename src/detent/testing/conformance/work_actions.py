"""Actions for checks: submit, claim, report and complete work, and run actions in parallel."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from detent.engine import Claimed, CommandRequest, Engine, due_timers
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.store.port import ReadTransaction, Store

T = TypeVar("T")

PERSON = c.Actor("person:ann")
SECOND_US = 1_000_000

# ---- asking ----------------------------------------------------------------------------------


def do(engine: Engine, command: c.Command, **options: Any) -> Any:
    return engine.do(command, PERSON, **options)


def refusal(engine: Engine, command: c.Command, **options: Any) -> str:
    """The code with which a command is refused; one that is not refused fails the check."""
    return code(partial(do, engine, command, **options))


def code(work: Callable[[], Any]) -> str:
    """The code of the error that this raises; without one the check fails."""
    try:
        answer = work()
    except DetentError as error:
        return error.code
    raise AssertionError(f"{work} was not refused but answered {answer!r}")


def outcome(engine: Engine, command: c.Command) -> Any:
    """The answer, or the code of the refusal."""
    result = engine.execute([CommandRequest(command, PERSON)])[0]
    return result.code if isinstance(result, DetentError) else result.value


def submit_job(engine: Engine, **fields: Any) -> str:
    """A job alone; its id."""
    command = c.SubmitJob(**{"job_id": new_id(), "project": "p", "intent": "dig", **fields})
    answer: str = do(engine, command)
    return answer


def submit_task(engine: Engine, **fields: Any) -> str:
    """Submit and queue a board task; returns its id."""
    known = {"task_id": new_id(), "project": "p", "lifecycle": "board", "intent": "dig"}
    command = c.SubmitTask(**{**known, "source": "cli", "queue": True, **fields})
    answer: str = do(engine, command)
    return answer


# ---- working ---------------------------------------------------------------------------------


def claim(engine: Engine, limit: int = 1, worker: str = "w1", **abilities: Any) -> list[Claimed]:
    return engine.claim(ClaimRequest(worker, new_id(), limit, **abilities))


def claim_one(engine: Engine, worker: str = "w1", **abilities: Any) -> Claimed:
    (claimed,) = claim(engine, 1, worker, **abilities)
    return claimed


def run_of(claimed: Claimed) -> str:
    assert claimed.job.run_id is not None
    return claimed.job.run_id


def completion(claimed: Claimed, result: Any = None) -> c.CompleteRun:
    return c.CompleteRun(claimed.grant, run_of(claimed), result)


def complete(engine: Engine, claimed: Claimed, result: Any = None) -> Any:
    return do(engine, completion(claimed, result))


def suspend(engine: Engine, claimed: Claimed, wait: str, kind: str, **fields: Any) -> Any:
    return do(engine, c.SuspendRun(claimed.grant, run_of(claimed), wait, kind, **fields))


def keep(engine: Engine) -> int:
    """A keeper's pass: what is due is dealt with where it is found. How much it was."""
    return engine.transaction(lambda tx: due_timers.run(tx, 1_000, engine.lifetimes))


# ---- looking ---------------------------------------------------------------------------------


def job_of(store: Store, job_id: str) -> Job:
    with store.read() as view:
        ((job, _),) = view.jobs([job_id])
    return job


def task_of(store: Store, task_id: str) -> Task:
    with store.read() as view:
        ((task, _),) = view.tasks([task_id])
    return task


def names(view: ReadTransaction, stream: str) -> list[str]:
    """The names of a stream's events."""
    return [event.name for event in view.events(0, 10_000, stream=stream)]


# ---- at the same time ------------------------------------------------------------------------


def together(*work: Callable[[], T], deadline_s: float = 180) -> list[T]:
    """Run all at the same time, each in a thread; a thread that hangs fails the check."""
    start = threading.Barrier(len(work))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def begin(number: int, each: Callable[[], T]) -> None:
        try:
            start.wait()
            results[number] = each()
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=begin, args=(number, each), daemon=True)
        for number, each in enumerate(work)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline_s)
        assert not thread.is_alive(), f"still at it after {deadline_s} s: a deadlock?"
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(work))]
