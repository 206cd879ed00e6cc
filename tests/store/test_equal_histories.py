"""`detent verify` finds the same differences, whether equal histories are folded once or each."""

import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.integrity import equal_histories
from detent.integrity.equal_histories import Checked
from detent.integrity.verify import verify
from detent.store.commit_body import compressed
from detent.store.port import ReadTransaction, Store
from tests.engine.job_set_scene import ENDED, PLAIN, Claim, Person, steps
from tests.engine.test_job_sets import opened

TABLES = ("ended_jobs", "ended_tasks", "active_jobs", "active_tasks", "other_runs")
#: Words in the bodies of commits, and what replaces the first of them.
WORDS = (("barn", "yard"), ("P2", "P1"), ('"dig"', '"saw"'), (",1,", ",2,"), ("w1", "w9"))


def changed_row(database: apsw.Connection, table: str, row: int, column: int) -> None:
    """Change one column of one row."""
    names = [each[1] for each in database.execute(f"PRAGMA table_info({table})")]
    ids = [each[0] for each in database.execute(f"SELECT id FROM {table} ORDER BY id")]
    name = names[column % len(names)]
    if not ids or name in ("id", "commits", "lease_id"):
        return
    new = f"CASE WHEN {name} IS NULL THEN 7 WHEN typeof({name}) = 'integer' THEN {name} + 1"
    new += f" WHEN json_valid({name}) THEN '[7]' ELSE {name} || 'x' END"
    database.execute(f"UPDATE {table} SET {name} = {new} WHERE id = ?", (ids[row % len(ids)],))


def deleted_row(database: apsw.Connection, table: str, row: int) -> None:
    ids = [each[0] for each in database.execute(f"SELECT id FROM {table} ORDER BY id")]
    if ids:
        database.execute(f"DELETE FROM {table} WHERE id = ?", (ids[row % len(ids)],))


def strange_row(database: apsw.Connection, table: str, row: int) -> None:
    """A checkpoint of a job that has none."""
    ids = [each[0] for each in database.execute(f"SELECT id FROM {table} ORDER BY id")]
    if ids and table.endswith("jobs"):
        names = [each[1] for each in database.execute("PRAGMA table_info(checkpoints)")]
        values = {"job_id": ids[row % len(ids)], "name": "x", "value": "1", "kind": "value"}
        columns = ", ".join(names)
        marks = ", ".join("?" * len(names))
        database.execute(
            f"INSERT INTO checkpoints ({columns}) VALUES ({marks})",
            [values.get(name, 0) for name in names],
        )


def changed_body(database: apsw.Connection, number: int, word: int) -> None:
    rows = list(database.execute("SELECT id, body FROM commits ORDER BY id"))
    if rows:
        commit_id, body = rows[number % len(rows)]
        old, new = WORDS[word % len(WORDS)]
        text = zlib.decompress(body).decode().replace(old, new, 1)
        size, data = compressed(text)
        database.execute(
            "UPDATE commits SET size = ?, body = ? WHERE id = ?", (size, data, commit_id)
        )


numbers = st.integers(0, 60)
tables = st.sampled_from(TABLES[:2] * 3 + TABLES[2:])
corruptions = st.one_of(
    st.tuples(st.just(changed_row), tables, numbers, numbers),
    st.tuples(st.just(deleted_row), tables, numbers),
    st.tuples(st.just(strange_row), st.sampled_from(("ended_jobs", "active_jobs")), numbers),
    st.tuples(st.just(changed_body), numbers, numbers),
)


def equal_work(person: Person) -> None:
    """Four jobs and four board tasks, which have ended."""
    person.do([PLAIN._replace(payload=payload) for payload in (1, "é", None, {"a": "\ue000v"})])
    person.do([PLAIN._replace(lifecycle="board")] * 4)
    person.do(Claim("w1", "n1", 8))
    person.do([ENDED._replace(held=each, value={"n": each}) for each in range(8)])


def outcome(store: Store) -> Any:
    """Everything that verify says; the type of the error if a row cannot be read."""
    try:
        return verify(store)._replace(anchor=None)  # type: ignore[arg-type]
    except Exception as error:
        return type(error)


@contextmanager
def one_by_one() -> Iterator[None]:
    def nothing(_: ReadTransaction) -> Checked:
        return Checked((), {})

    with patch.object(equal_histories, "check", nothing):
        yield


@settings(max_examples=40, deadline=None)
@given(steps, st.lists(corruptions, min_size=1, max_size=3))
def test_the_same_differences_are_found(work: list[Any], damage: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "detent.db"
        with opened(path, sets=True) as person:
            equal_work(person)
            for step in work:
                person.do(step)
            corrupt(path, damage)
            with one_by_one():
                expected = outcome(person.engine.store)
            assert outcome(person.engine.store) == expected


def corrupt(path: Path, damage: list[Any]) -> None:
    database = apsw.Connection(str(path))
    for function, *given_values in damage:
        try:
            function(database, *given_values)
        except apsw.ConstraintError:
            continue  # the schema refuses it
    database.close()


# ---- single cases ----------------------------------------------------------------------------


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with opened(tmp_path / "detent.db", sets=True) as made:
        equal_work(made)
        yield made


def right_ones(person: Person) -> set[str]:
    with person.engine.store.read() as view:
        return set(equal_histories.check(view).right)


def test_equal_histories_are_not_folded_each(person: Person) -> None:
    assert right_ones(person) == {f"job-{number}" for number in range(1, 9)}
    assert verify(person.engine.store).clean


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("UPDATE ended_jobs SET payload = '2' WHERE id = 'job-1'", "job-1"),
        ("UPDATE ended_jobs SET result = '{\"n\":9}' WHERE id = 'job-2'", "job-2"),
        ("UPDATE ended_tasks SET title = 'x' WHERE id = 'job-6'", "job-6"),
        ("UPDATE ended_jobs SET root_id = 'job-1' WHERE id = 'job-3'", "job-3"),
        ("DELETE FROM ended_jobs WHERE id = 'job-7-j1'", "job-7"),
        ("UPDATE ended_jobs SET attempt = attempt + 1 WHERE id = 'job-4'", "job-4"),
    ],
)
def test_a_row_that_differs_is_folded_alone(
    person: Person, tmp_path: Path, statement: str, wrong: str
) -> None:
    database = apsw.Connection(str(tmp_path / "detent.db"))
    database.execute(statement)
    database.close()
    assert right_ones(person) == {f"job-{number}" for number in range(1, 9)} - {wrong}
    found = verify(person.engine.store).differences
    assert {each.stream for each in found} <= {wrong, f"{wrong}-j1"}
    assert found != []
    with one_by_one():
        assert verify(person.engine.store).differences == found
