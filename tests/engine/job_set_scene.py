"""Random work on plain jobs, a person who does it, and what two ways of writing it must share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import strategies as st

from detent.engine import Claimed, CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import SetLimit
from detent.store.codec import event_digest
from detent.store.postgres import PostgresStore
from detent.store.postgres.set_rows import PostgresJobSets
from detent.store.postgres.writer import PostgresWriter
from detent.store.sqlite import SqliteStore
from detent.store.sqlite.set_rows import SqliteJobSets
from detent.store.sqlite.writer import SqliteWriter
from detent.store.types import LoggedEvent
from detent.testing.clock import VirtualClock

PEOPLE = (c.Actor("ann"), c.Actor("bob"), c.Actor("run:r@x", "x"))
#: Tables whose rows are compared, each with the columns that depend on how events were grouped.
TABLES = {
    "active_jobs": ("commits", "lease_id"),
    "ended_jobs": ("commits",),
    "active_tasks": ("commits",),
    "ended_tasks": ("commits",),
    "other_runs": (),
    "queue": (),
    "deadlines": (),
    "waits": (),
    "signals": (),
    "idempotency_keys": (),
    "task_tags": (),
    "dependencies": (),
    "checkpoints": (),
}


# ---- random work -----------------------------------------------------------------------------


class Submit(NamedTuple):
    """New work; `parent` says how far back the job is that is its parent or dependency."""

    lifecycle: str
    project: str
    intent: str
    priority: str
    key: str | None
    options: dict[str, Any]
    payload: Any
    actor: int
    fresh: bool
    delay: int
    parent: int | None


class Claim(NamedTuple):
    """A claim by one of two workers."""

    worker: str
    nonce: str
    limit: int


class Report(NamedTuple):
    """A report about one of the held jobs; `stale` is added to its fence."""

    kind: str
    held: int
    value: Any
    exit_code: int | None
    actor: int
    stale: int


#: A submission and a report that may be written as sets.
PLAIN = Submit("", "barn", "dig", "P2", None, {}, {"n": 1}, 0, True, 0, None)
ENDED = Report("complete", 0, {"ok": True}, None, 0, 0)

values = st.sampled_from(
    [None, 1, "Grüße", {"a": [1.5, '"', "\\", "\ue000v", "\ue000i"]}, "x" * 900]
)
common = st.booleans().flatmap(
    lambda rare: st.fixed_dictionaries(
        {
            "priority": st.sampled_from(["P0", "P2", "P3", "none"] if rare else ["P2"]),
            "key": st.sampled_from([None, "rope"] if rare else [None]),
            "options": st.sampled_from(
                [{}, {"job_timeout_ms": 50_000}, {"retry": {"max": 2}}, {"x": "\ue000"}]
                if rare
                else [{}]
            ),
            "actor": st.sampled_from([0, 1, 2] if rare else [0]),
            "fresh": st.booleans() if rare else st.just(True),
            "delay": st.sampled_from([0, 5] if rare else [0]),
            "parent": st.none() | st.integers(0, 5) if rare else st.none(),
            "lifecycle": st.sampled_from(["", "board", "review"]),
        }
    )
)
submissions = st.builds(
    lambda project, intent, payload, rest: Submit(
        project=project, intent=intent, payload=payload, **rest
    ),
    st.sampled_from(["barn", "yard"]),
    st.sampled_from(["dig", "dig", "saw"]),
    values,
    common,
)
reports = st.builds(
    Report,
    st.sampled_from(
        ["complete", "complete", "fail", "progress", "cancel", "limit", "step", "effect"]
    ),
    st.integers(0, 12),
    values,
    st.sampled_from([None, None, None, 0]),
    st.sampled_from([0, 0, 0, 1, 2]),
    st.sampled_from([0, 0, 0, 1]),
)
#: Many equal submissions and some others; completions of the last claims, and other reports.
equal_submissions = st.builds(
    lambda equal, payloads, others, at: [
        *others[:at],
        *(equal._replace(payload=payload) for payload in payloads),
        *others[at:],
    ],
    submissions,
    st.lists(values, min_size=1, max_size=2) | st.lists(values, min_size=4, max_size=9),
    st.just([]) | st.lists(submissions, max_size=3),
    st.integers(0, 3),
)
completions, steps_of_runs = (
    st.builds(
        lambda equal, results, others, at: [
            *others[:at],
            *(equal._replace(held=held, value=value) for held, value in enumerate(results)),
            *others[at:],
        ],
        st.builds(
            lambda kind, code, actor: Report(kind, 0, None, code, actor, 0),
            st.just(kind),
            st.sampled_from([None, None, 0]),
            st.sampled_from([0, 0, 0, 1, 2]),
        ),
        st.lists(values, min_size=4, max_size=12),
        st.just([]) | st.lists(reports, max_size=3),
        st.integers(0, 3),
    )
    for kind in ("complete", "step")
)
claims = st.builds(
    Claim,
    st.sampled_from(["w1", "w2"]),
    st.sampled_from(["n1", "n1", "n2", 'odd"']),
    st.integers(3, 14),
)
rounds = st.tuples(equal_submissions, claims, completions | st.lists(reports, max_size=8))
workflows = st.builds(
    lambda begin, batches, end: (*begin, *batches, end),
    st.tuples(equal_submissions, claims),
    st.lists(steps_of_runs, max_size=12),
    completions,
)
steps = st.lists(
    rounds
    | workflows
    | st.tuples(equal_submissions)
    | st.tuples(claims, st.lists(submissions | reports)),
    max_size=4,
).map(lambda found: [step for each in found for step in each])


class Person:
    """Does the steps on one engine; ids are numbered, so that both engines have the same."""

    def __init__(self, engine: Engine, clock: VirtualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.held: list[Claimed] = []
        self.jobs = self.steps = 0
        self.answers: list[Any] = []

    def do(self, step: Any) -> None:
        self.clock.advance(us=1_001)
        if isinstance(step, Claim):
            claimed = self.engine.claim(ClaimRequest(step.worker, step.nonce, step.limit))
            self.held += claimed
            self.answers.append(claimed)
            return
        requests = list(filter(None, map(self.request, step)))
        for result in self.engine.execute(requests) if requests else ():
            if isinstance(result, DetentError):
                self.answers.append((result.code, str(result)))
            else:
                self.answers.append(result)

    def request(self, each: Submit | Report) -> CommandRequest | None:
        if isinstance(each, Report):
            return self.report(each) if self.held else None
        self.jobs += 1
        parent = None if each.parent is None else f"job-{self.jobs - 1 - each.parent}"
        command: Any
        if each.lifecycle:
            command = c.SubmitTask(
                f"job-{self.jobs}",
                *(each.project, each.lifecycle, each.intent, "cli", each.priority),
                *(f'No. {self.jobs} "', each.payload, (each.key,) if each.key else ()),
                depends_on=(parent,) if parent else (),
                options=each.options,
                queue=each.key is None,
                delay=each.delay,
            )
        else:
            command = c.SubmitJob(
                f"job-{self.jobs}",
                *(each.project, each.intent, each.priority, each.payload, parent, each.key),
                options=each.options,
                delay=each.delay,
            )
        return CommandRequest(command, PEOPLE[each.actor], fresh=each.fresh)

    def report(self, each: Report) -> CommandRequest:
        held = self.held[-1 - each.held % len(self.held)]
        grant = held.grant._replace(fence=held.grant.fence + each.stale)
        run_id = held.job.run_id or ""
        self.steps += 1
        name = f'page "{self.steps % 29}"'
        commands: dict[str, Any] = {
            "complete": c.CompleteRun(grant, run_id, each.value, exit_code=each.exit_code),
            "fail": c.FailRun(grant, run_id, "transient", "it broke"),
            "progress": c.ReportProgress(grant, run_id, 0.5, "half"),
            "cancel": c.CancelJob(grant.job_id, "no more"),
            "limit": SetLimit("intent:saw", running=5),
            "step": c.RecordCheckpoint(grant, name, each.value),
            "effect": c.BeginEffect(grant, name, "ask"),
        }
        return CommandRequest(commands[each.kind], PEOPLE[each.actor])


# ---- comparison ------------------------------------------------------------------------------


@contextmanager
def person_at(
    store: SqliteStore | PostgresStore, clock: VirtualClock, *, sets: bool
) -> Iterator[Person]:
    """A person at a store that writes sets, or decides each command by itself."""
    writer = SqliteWriter if isinstance(store, SqliteStore) else PostgresWriter
    try:
        if sets:
            yield Person(Engine(store), clock)
        else:
            with patch.object(writer, "sets", None):
                yield Person(Engine(store), clock)
    finally:
        store.close()


def log_of(person: Person, audited: Callable[[], list[Any]]) -> dict[str, Any]:
    """Events by stream with their digests; `audited` reads the rows of the view `events`."""
    found: dict[str, Any] = {}
    with person.engine.store.read() as view:
        logged = view.events(0, 100_000)
        for stream in dict.fromkeys(each.stream for each in logged):
            own = list(view.events(0, 1_000, stream=stream))
            assert own == [each for each in logged if each.stream == stream]
            found[f"stream {stream}"] = [(each[1:10], event_digest(each)) for each in own]
            assert view.version_of(stream) == len(own)
    assert [each.position for each in logged] == list(range(1, len(logged) + 1))
    assert audited() == [tuple(each) for each in logged]
    return found


#: Reads the view that log_of compares with the log.
AUDITED = f"SELECT {', '.join(LoggedEvent._fields)} FROM events ORDER BY position"


def note_sets(
    patched: pytest.MonkeyPatch,
    sets: type[SqliteJobSets] | type[PostgresJobSets],
    *operations: str,
) -> list[tuple[str, int]]:
    """The sets that are written from now on: the operation and the number of jobs."""
    found: list[tuple[str, int]] = []
    for name in operations:
        original = getattr(sets, name)

        def note(self: Any, jobs: Any, some: Any, *more: Any, _as: Any = (name, original)) -> Any:
            found.append((_as[0], len(some)))
            return _as[1](self, jobs, some, *more)

        patched.setattr(sets, name, note)
    return found
