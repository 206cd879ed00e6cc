"""Commands about plain jobs as sets write what the general path writes, and answer the same."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.engine import Claimed, CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import SetLimit
from detent.store.codec import event_digest
from detent.store.job_sets import JobSet
from detent.store.sqlite import SqliteStore
from detent.store.sqlite.set_rows import SqliteJobSets
from detent.store.sqlite.writer import SqliteWriter
from detent.store.types import LoggedEvent
from detent.testing.clock import VirtualClock
from tests.altered_database import readable

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
def opened(path: Path, *, sets: bool) -> Iterator[Person]:
    clock = VirtualClock()
    store = SqliteStore(path, clock)
    try:
        if sets:
            yield Person(Engine(store), clock)
        else:
            with patch.object(SqliteWriter, "sets", None):
                yield Person(Engine(store), clock)
    finally:
        store.close()


def everything(person: Person, path: Path) -> dict[str, Any]:
    """Rows, events by stream with their digests, and answers."""
    database = readable(apsw.Connection(str(path)))
    found: dict[str, Any] = {"answers": person.answers}
    for table, left_out in TABLES.items():
        names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        names = [name for name in names if name not in left_out]
        found[table] = sorted(
            map(repr, database.execute(f"SELECT {', '.join(names)} FROM {table}"))
        )
    with person.engine.store.read() as view:
        logged = view.events(0, 100_000)
        streams = dict.fromkeys(each.stream for each in logged)
        for stream in streams:
            own = list(view.events(0, 1_000, stream=stream))
            assert own == [each for each in logged if each.stream == stream]
            found[f"stream {stream}"] = [(each[1:10], event_digest(each)) for each in own]
            assert view.version_of(stream) == len(own)
    assert [each.position for each in logged] == list(range(1, len(logged) + 1))
    names_of_events = ", ".join(LoggedEvent._fields)
    audited = database.execute(f"SELECT {names_of_events} FROM events ORDER BY position")
    assert audited.fetchall() == [tuple(each) for each in logged]
    database.close()
    return found


def both_ways(work: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = []
    with tempfile.TemporaryDirectory() as place:
        for name, sets in (("sets.db", True), ("each.db", False)):
            path = Path(place) / name
            with opened(path, sets=sets) as person:
                for step in work:
                    person.do(step)
                found.append(everything(person, path))
    return found[0], found[1]


@settings(max_examples=80, deadline=None)
@given(steps)
def test_sets_write_what_the_general_path_writes(work: list[Any]) -> None:
    by_sets, one_by_one = both_ways(work)
    assert by_sets == one_by_one


# ---- single cases ----------------------------------------------------------------------------

PLAIN = Submit("", "barn", "dig", "P2", None, {}, {"n": 1}, 0, True, 0, None)
ENDED = Report("complete", 0, {"ok": True}, None, 0, 0)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with opened(tmp_path / "detent.db", sets=True) as made:
        yield made


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The sets that were written: the operation and the number of jobs."""
    found: list[tuple[str, int]] = []
    for name in ("insert", "claim", "record", "end"):
        original = getattr(SqliteJobSets, name)

        def note(
            self: SqliteJobSets, jobs: JobSet, some: Any, *more: Any, _as: Any = (name, original)
        ) -> Any:
            found.append((_as[0], len(some)))
            return _as[1](self, jobs, some, *more)

        monkeypatch.setattr(SqliteJobSets, name, note)
    return found


def test_plain_jobs_are_written_as_sets(person: Person, written: list[tuple[str, int]]) -> None:
    person.do([PLAIN] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("insert", 6), ("claim", 6), ("end", 6)]
    assert [each.payload for each in person.held] == [{"n": 1}] * 6


@pytest.mark.parametrize(("lifecycle", "state"), [("board", "done"), ("review", "ready")])
def test_plain_tasks_are_written_as_sets(
    person: Person, written: list[tuple[str, int]], lifecycle: str, state: str
) -> None:
    person.do([PLAIN._replace(lifecycle=lifecycle)] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("insert", 6), ("claim", 6), ("end", 6)]
    assert [each.payload for each in person.held] == [{"n": 1}] * 6
    with person.engine.store.read() as view:
        tasks = list(view.tasks([f"job-{number}" for number in range(1, 7)]))
    assert [(task.state, version) for task, version in tasks] == [(state, 4)] * 6


@pytest.mark.parametrize("lifecycle", ["", "board"])
def test_a_single_submission_is_a_set_if_its_signature_was_used_before(
    person: Person, written: list[tuple[str, int]], lifecycle: str
) -> None:
    submission = PLAIN._replace(lifecycle=lifecycle)
    person.do([submission])
    assert written == []
    person.do([submission._replace(payload="another")])
    person.do([submission._replace(priority="P0")])
    person.do([submission] * 2)
    assert written == [("insert", 1), ("insert", 2)]


def test_a_batch_of_different_submissions_is_one_commit(
    person: Person, written: list[tuple[str, int]]
) -> None:
    different = [PLAIN, PLAIN._replace(intent="saw"), PLAIN._replace(priority="P0")]
    for submission in different:
        person.do([submission])
    with person.engine.store.read() as view:
        before = view.head()
    person.do(different)
    assert written == []
    with person.engine.store.read() as view:
        assert view.commit_boundary(before + 1) == before


def test_signatures_that_are_used_once_are_forgotten(person: Person) -> None:
    with patch("detent.engine.plain_submissions.MAX_FORMS", 2):
        for number in range(3):
            person.do([PLAIN._replace(intent=f"dig-{number}")])
    assert len(person.engine._submissions._used) == 1


def test_a_task_with_a_dependent_ends_on_the_general_path(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN._replace(lifecycle="board")] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([PLAIN._replace(lifecycle="board", parent=0)])
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written[-1] == ("end", 5)
    with person.engine.store.read() as view:
        [(waiting, _)] = view.tasks(["job-7"])
    assert waiting.open_dependencies == 0


def test_a_refused_completion_is_not_in_the_log(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([ENDED._replace(held=each, stale=each == 3) for each in range(6)])
    assert written[-1] == ("end", 5)
    assert [each for each in person.answers if isinstance(each, tuple) and each[0] == "stale_fence"]
    with person.engine.store.read() as view:
        refused = view.events(0, 100, stream=person.held[-4].grant.job_id)
    assert refused[-1].name == "run_started"


def test_a_job_that_another_command_names_takes_the_general_path(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN] * 5)
    person.do(Claim("w1", "n1", 5))
    person.do(
        [Report("progress", 2, None, None, 0, 0), *(ENDED._replace(held=n) for n in range(5))]
    )
    assert [name for name, _ in written] == ["insert", "claim"]
    with person.engine.store.read() as view:
        names = [each.name for each in view.events(0, 100, stream=person.held[-3].grant.job_id)]
    assert names[-3:] == ["run_progressed", "run_succeeded", "job_completed"]


def test_a_long_set_has_several_commits(person: Person, written: list[tuple[str, int]]) -> None:
    person.do([PLAIN._replace(payload="x" * 30_000)] * 10)
    person.do(Claim("w1", "n1", 10))
    person.do([ENDED._replace(held=each, value="y" * 30_000) for each in range(10)])
    assert written == [("insert", 10), ("claim", 10), ("end", 10)]
    with person.engine.store.read() as view:
        assert len({view.commit_boundary(each) for each in range(1, 60)}) > 8
        names = [each.name for each in view.events(0, 100, stream=person.held[9].grant.job_id)]
    assert len(names) == 6
