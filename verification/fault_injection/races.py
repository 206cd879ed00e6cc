"""Races for the last word on a reviewed task: accept, reject and cancel at the same moment.

Each racer has a store and an engine of its own, as if in a process of its own. The first one
gets an acknowledgement, and the later ones get a refusal.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from detent.engine import CommandRequest, CommandResult, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError, Refused
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.port import Store
from detent.testing.audit import audit

BATCH = 200
#: Each racer's own word, and the event by which the log remembers that it was heard.
WORDS: dict[str, tuple[Callable[[str], c.Command], str]] = {
    "accept": (lambda task_id: c.AcceptTask(task_id), "task_accepted"),
    "reject": (lambda task_id: c.RejectTask(task_id, "not yet"), "task_rejected"),
    "cancel": (lambda task_id: c.CancelTask(task_id, "no longer wanted"), "task_cancelled"),
}


@dataclass(slots=True)
class Result:
    """How often each word won, and everything that was not as promised."""

    races: int = 0
    won: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def run(open_store: Callable[[], Store], races: int) -> Result:
    """This many races on one database; the answers must agree with the log."""
    result = Result()
    with _engines(open_store, len(WORDS) + 1) as (first, *racers):
        for begun in range(0, races, BATCH):
            tasks = _ready_tasks(first, min(BATCH, races - begun))
            _judge(first, tasks, _race(racers, tasks), result)
        try:
            audit(first.store)
        except AssertionError as error:
            result.problems.append(f"P8: {error}")
    result.problems += [
        f"{word} never won" for word in WORDS if races > BATCH and not result.won[word]
    ]
    return result


@contextmanager
def _engines(open_store: Callable[[], Store], count: int) -> Iterator[list[Engine]]:
    with ExitStack() as stack:
        stores = [open_store() for _ in range(count)]
        for store in stores:
            stack.callback(store.close)
        yield [Engine(store) for store in stores]


def _ready_tasks(engine: Engine, count: int) -> list[str]:
    """Review tasks whose work is done and waits for a verdict."""
    actor = c.Actor("client")
    ids = [new_id() for _ in range(count)]
    _all(
        engine.execute(
            [
                CommandRequest(
                    c.SubmitTask(each, "default", "review", "work", "api", queue=True), actor
                )
                for each in ids
            ]
        )
    )
    claimed = engine.claim(ClaimRequest("w", "nonce", count))
    ends = [
        CommandRequest(c.CompleteRun(each.grant, each.job.run_id or ""), c.Actor("worker:w"))
        for each in claimed
    ]
    _all(engine.execute(ends))
    return ids


def _all(results: Sequence[CommandResult | DetentError]) -> None:
    for result in results:
        if isinstance(result, DetentError):
            raise result


def _race(racers: Sequence[Engine], tasks: Sequence[str]) -> dict[str, list[bool]]:
    """For each word and task, whether its win was acknowledged."""
    won: dict[str, list[bool]] = {word: [] for word in WORDS}
    start = threading.Barrier(len(racers))

    def say(engine: Engine, word: str) -> None:
        command, _ = WORDS[word]
        for task_id in tasks:
            start.wait()
            try:
                engine.do(command(task_id), c.Actor(f"person:{word}"))
            except Refused:
                won[word].append(False)
            else:
                won[word].append(True)

    threads = [threading.Thread(target=say, args=each) for each in zip(racers, WORDS, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def _judge(
    engine: Engine, tasks: Sequence[str], won: dict[str, list[bool]], result: Result
) -> None:
    with engine.store.read() as view:
        logged = {task_id: view.events(0, 100, stream=task_id) for task_id in tasks}
    for at, task_id in enumerate(tasks):
        acknowledged = {word for word in WORDS if won[word][at]}
        result.races += 1
        result.problems += _problems(task_id, acknowledged, [each.name for each in logged[task_id]])
        names = [each.name for each in logged[task_id]]
        first = next((word for name in names for word in WORDS if WORDS[word][1] == name), "none")
        result.won[first] += 1


def _problems(task_id: str, acknowledged: set[str], names: Sequence[str]) -> Iterator[str]:
    """An acknowledged win is in the log once, and no other is.

    A rejected task may be cancelled after that: it is pending again, and that is another matter.
    """
    heard = {word for word, (_, name) in WORDS.items() if name in names}
    if heard != acknowledged:
        yield f"P12: {task_id}: acknowledged {sorted(acknowledged)}, in the log {sorted(heard)}"
    if heard not in ({"accept"}, {"reject"}, {"cancel"}, {"reject", "cancel"}):
        yield f"P12: {task_id} was judged by {sorted(heard)}"
    for word in heard:
        if list(names).count(WORDS[word][1]) > 1:
            yield f"P12: {task_id}: {word} twice"
    if heard == {"reject", "cancel"} and names.index("task_rejected") > names.index(
        "task_cancelled"
    ):
        yield f"P9: {task_id} was rejected after it was cancelled"
