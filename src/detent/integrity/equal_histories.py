"""Finds ended work that is right without folding each task or job: equal histories, folded once.

The log has the events of equal tasks and jobs as templates with rows. Those that are in the same
templates of the same commits have the same history but for their ids and values, so that one of
them is folded, with marks for the id and the values. The rows of the others must be equal to its
rows with their own id and values. Whatever differs, is not ended or is not only in templates is
left to `audit`, which folds it and reports what is wrong: this module reports nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from detent.integrity import audit
from detent.integrity.audit import Folded, Rows
from detent.kernel.entities import Job
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.world import RUNS
from detent.store.codec import from_json, to_json
from detent.store.event_template import ID, MARK, NO_VALUE, Row, TemplateGroup, fill
from detent.store.log_walk import commits
from detent.store.port import ReadTransaction
from detent.store.rows import job_of_run
from detent.store.types import LoggedEvent

#: Fewer equal histories than this are folded one by one.
FEWEST = 3
#: The tables whose rows are compared here.
TABLES = ("tasks", "jobs", "runs")
#: Tables without rows of work that has ended as equal work does.
FURTHER_TABLES = ("queue", "waits", "checkpoints", "evidence")
#: What a second trial of a history has instead of marks: nothing but ids and values may differ.
OTHER_ID, OTHER_VALUES = "0-other.id:of-another-length", ('[1,{"a":null}]', '"other"')


class History:
    """A template in a commit, after another history; None before the first."""

    __slots__ = ("at", "before", "count", "groups", "marks", "number")

    def __init__(self, before: "History | None", groups: list[TemplateGroup], at: int) -> None:
        self.before = before
        self.groups = groups
        self.at = at
        self.number: int = 0 if before is None else before.number + 1
        #: Those of the values of its rows.
        self.marks = _mark("v", self.number), _mark("w", self.number)
        #: How many tasks or jobs have this history and no further one.
        self.count = 0

    def events(self, name: str, values: Callable[[int], tuple[str, str]]) -> Iterator[LoggedEvent]:
        """The events of a task or job with this id; `values` has those of each template."""
        path: list[History] = []
        last: History | None = self
        while last is not None:
            path.append(last)
            last = last.before
        for each in reversed(path):
            value, second = (msgspec.Raw(text.encode()) for text in values(each.number))
            yield from fill(each.groups, [Row(name, value, second)], each.at, 0)


#: The JSON texts of the values of a task or job, by mark.
Values = Mapping[str, bytes]
NO_VALUES: Values = {}


class ExpectedRow:
    """The columns of a row, some of which contain the id or are values."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._of: Callable[[Mapping[str, Any]], Any] = itemgetter(*columns)
        self._plain = list(columns.values())
        marked = [each for each in enumerate(self._plain) if MARK in to_json(each[1])]
        self._values = [each for each in marked if _is_value(each[1])]
        self._texts = [each for each in marked if _is_text_with_ids(each[1])]
        #: Whether every mark is a value, or an id within a text.
        self.simple = len(marked) == len(self._values) + len(self._texts)

    def filled(self, name: str, values: Values) -> list[Any]:
        """The columns for an id and values; null is not among the values."""
        found = self._plain.copy()
        for place, mark in self._values:
            found[place] = from_json(values[mark]) if mark in values else None
        for place, text in self._texts:
            found[place] = text.replace(ID, name)
        return found

    def equals(self, row: Mapping[str, Any], name: str, values: Values) -> bool:
        try:
            return list(self._of(row)) == self.filled(name, values)
        except KeyError:
            return False


#: The rows of a history, each by its table and by what follows the id in its own id.
Expected = Mapping[tuple[str, str], ExpectedRow]
NONE: Expected = {}


def _mark(letter: str, number: int) -> str:
    return f"{MARK}{letter}{number}"


def _is_value(column: Any) -> bool:
    return isinstance(column, str) and column.startswith(MARK) and column[2:].isdigit()


def _is_text_with_ids(column: Any) -> bool:
    return isinstance(column, str) and MARK not in column.replace(ID, "")


class EqualHistories:
    """The histories of all tasks and jobs that are only in templates."""

    def __init__(self) -> None:
        #: By id of a task, or of a job without a task: its history, and the values of each part.
        self.histories: dict[str, History] = {}
        self.values: dict[str, dict[str, bytes]] = {}
        #: Ids that have other events too, or whose rows differ.
        self.others: set[str] = set()

    def read(self, view: ReadTransaction) -> None:
        """Read the whole log."""
        for commit in chain.from_iterable(commits(view)):
            for groups, rows, stream in commit.sections():
                if groups is None:
                    self.others.add(_unit(stream))
                else:
                    self._add(groups, rows, commit.at)
        self.others.update(_unit(event.stream) for event in view.unsequenced())

    def _add(self, groups: list[TemplateGroup], rows: Iterable[Row], at: int) -> None:
        histories, next_of = self.histories, dict[History | None, History]()
        for row in rows:
            before = histories.get(row.id)
            history = next_of.get(before)
            if history is None:
                history = next_of[before] = History(before, groups, at)
            histories[row.id] = history
            if row.value is not NO_VALUE:
                self._note_values(row, history.marks)

    def _note_values(self, row: Row, marks: tuple[str, str]) -> None:
        for mark, raw in zip(marks, (row.value, row.second), strict=True):
            if raw is not NO_VALUE and (text := bytes(raw)) != b"null":
                self.values.setdefault(row.id, {})[mark] = text

    def candidates(self) -> dict[str, History]:
        """Those that are in templates alone and have enough equals."""
        found = {name: each for name, each in self.histories.items() if name not in self.others}
        for each in found.values():
            each.count += 1
        return {name: each for name, each in found.items() if each.count >= FEWEST}


def _unit(stream: str) -> str:
    """The task of a job, or the job itself."""
    task, mark, number = stream.rpartition("-j")
    return task if mark and number.isdigit() else stream


# ---- one history -----------------------------------------------------------------------------


def expected_of(history: History) -> Expected | None:
    """The rows of a history; None if it has not ended or is not as simple as it must be."""

    def marks(number: int) -> tuple[str, str]:
        return to_json(_mark("v", number)), to_json(_mark("w", number))

    found = _rows_of(history, ID, marks)
    other = _rows_of(history, OTHER_ID, lambda _: OTHER_VALUES)
    if found is None or other is None or found.keys() != other.keys():
        return None
    rows = {key: ExpectedRow(columns) for key, columns in found.items()}
    value, second = (text.encode() for text in OTHER_VALUES)
    values = {_mark("v", each): value for each in range(history.number + 1)}
    values |= {_mark("w", each): second for each in range(history.number + 1)}
    if not all(
        row.simple and row.filled(OTHER_ID, values) == list(other[key].values())
        for key, row in rows.items()
    ):
        return None
    return rows


def _rows_of(
    history: History, name: str, values: Callable[[int], tuple[str, str]]
) -> dict[tuple[str, str], Mapping[str, Any]] | None:
    """The rows of one task or job with its run, if it has ended and there is nothing else."""
    folded = Folded()
    events = list(history.events(name, values))
    for event in events:
        audit.fold_event(folded, event)
    jobs = list(folded.jobs())
    if folded.flaws or folded.unread or folded.deleted or len(jobs) != 1:
        return None
    if any(_unit(event.stream) != name for event in events):
        return None
    if not _has_ended(folded, jobs[0]) or _breaks_invariants(events, jobs[0]):
        return None
    return {
        (table, str(key[-1]).removeprefix(name)): columns
        for table, rows in audit.expected_rows(folded).items()
        for key, columns in rows.items()
    }


def _has_ended(folded: Folded, job: Job) -> bool:
    """Whether the job has ended, and has nothing but a run and a task."""
    kinds = {kind for (kind, _), parts in folded.world.parts.items() if parts}
    nothing_else = kinds <= {RUNS} and not folded.world.plans and not folded.evidence
    return job.state in ENDED_JOB and nothing_else and not folded.world.usage


def _breaks_invariants(events: list[LoggedEvent], job: Job) -> bool:
    own = [event for event in events if event.stream == job.id]
    return bool(audit.invariant_offences(own, job))


# ---- the rows --------------------------------------------------------------------------------


class Checked(NamedTuple):
    """Ids of tasks, or of jobs without a task, that are right, and the rows of all others."""

    right: Collection[str]
    tables: Mapping[str, Rows]


def check(view: ReadTransaction) -> Checked:
    """Read the log and the rows of tasks, jobs and runs."""
    histories = EqualHistories()
    histories.read(view)
    wanted = _Wanted(histories)
    tables = {table: dict(wanted.differing(view, table)) for table in TABLES}
    tables |= {table: dict(audit.listed_rows(view, table)) for table in FURTHER_TABLES}
    wrong = {name for name, count in wanted.left.items() if count}
    wrong |= wanted.left.keys() & set(map(_unit, _with_further_rows(view, tables, wanted.jobs)))
    if wrong:
        for table in TABLES:
            rows = audit.listed_rows(view, table)
            tables[table].update({key: row for key, row in rows if _unit(key[0]) in wrong})
    return Checked(wanted.left.keys() - wrong, tables)


def _with_further_rows(
    view: ReadTransaction, tables: Mapping[str, Rows], jobs: Collection[str]
) -> Iterator[str]:
    """Jobs with rows that ended jobs of equal histories do not have."""
    for table in FURTHER_TABLES:
        for key in tables[table]:
            yield job_of_run(key[0]) if table == "evidence" else key[0]
    yield from (step.job_id for step in view.steps(jobs))
    yield from (signal.job_id for signal in view.signals(jobs))
    yield from view.plans(jobs)


class _Wanted:
    """The rows that are expected, and how many of them were found."""

    def __init__(self, histories: EqualHistories) -> None:
        self._values = histories.values
        self._expected: dict[str, Expected] = {}
        known: dict[History, Expected | None] = {}
        for name, history in histories.candidates().items():
            if history not in known:
                known[history] = expected_of(history)
            expected = known[history]
            if expected is not None:
                self._expected[name] = expected
        #: How many rows of each are still to be found.
        self.left = {name: len(rows) for name, rows in self._expected.items()}
        #: The jobs whose rows were found.
        self.jobs: list[str] = []

    def differing(
        self, view: ReadTransaction, table: str
    ) -> Iterator[tuple[tuple[Any, ...], Mapping[str, Any]]]:
        """The rows of a table that are not as expected, with their keys."""
        for key, row in audit.listed_rows(view, table):
            unit = _unit(key[0])
            wanted = self._expected.get(unit, NONE).get((table, key[-1].removeprefix(unit)))
            if wanted is not None and wanted.equals(row, unit, self._values.get(unit, NO_VALUES)):
                self.left[unit] -= 1
                if table == "jobs":
                    self.jobs.append(key[-1])
            else:
                yield key, row
