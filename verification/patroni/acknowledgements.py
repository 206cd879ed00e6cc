"""Compares what clients recorded as acknowledged with what the database has after the faults.

`python -m verification.patroni.acknowledgements URL RECORD...` prints what is wrong, and counts.
"""

import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from detent.kernel.derived_ids import jobs_of_task
from detent.store.port import ReadTransaction, Store
from detent.store.postgres import PostgresStore
from detent.store.types import LoggedEvent

WITHIN_S = 120.0
LOOK_S = 0.2
BATCH = 500
#: Kinds of records that are acknowledgements of writes.
WRITES = ("submitted", "completed", "task")


class Acknowledgement(NamedTuple):
    """One line of a record: `began` and `at` are times of the machine's monotonic clock."""

    kind: str
    id: str
    began: float
    at: float
    position: int = 0
    version: int = 0
    code: str = ""


@dataclass(slots=True)
class Findings:
    problems: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def read_record(path: Path) -> list[Acknowledgement]:
    """The lines of a record; the last one may be incomplete, for its process was killed."""
    lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
    return [Acknowledgement(**json.loads(line)) for line in lines if line.endswith("\n")]


def feed_of(path: Path) -> Path:
    """The file for the events that the client of a record has read."""
    return path.with_suffix(".feed.jsonl")


def of_kind(record: Iterable[Acknowledgement], kind: str) -> list[str]:
    return [each.id for each in record if each.kind == kind]


def compare(store: Store, records: Mapping[str, Sequence[Acknowledgement]]) -> Findings:
    """Everything acknowledged is there, and every reader has seen the log exactly once."""
    everything = [each for record in records.values() for each in record]
    findings = Findings()
    for kind in (*WRITES, "event", "refused"):
        findings.counts[kind] = len(of_kind(everything, kind))
    with store.read() as view:
        findings.problems += _lost_jobs(view, everything)
        findings.problems += _lost_tasks(view, everything)
        log = list(_log(view))
    findings.problems += _repeated(log)
    for name, record in records.items():
        seen = [each for each in record if each.kind == "event"]
        findings.problems += _misread(name, seen, log)
    return findings


def _lost_jobs(view: ReadTransaction, record: Sequence[Acknowledgement]) -> list[str]:
    completed = set(of_kind(record, "completed"))
    states = _job_states(view, [*of_kind(record, "submitted"), *completed])
    lost = [f"the acknowledged job {key} is lost" for key, state in states.items() if not state]
    return lost + [
        f"the job {key} was completed, but is {states[key]}"
        for key in completed
        if states[key] not in ("", "completed")
    ]


def _job_states(view: ReadTransaction, ids: Sequence[str]) -> dict[str, str]:
    states = dict.fromkeys(ids, "")
    for first in range(0, len(ids), BATCH):
        for job, _ in view.jobs(ids[first : first + BATCH]):
            states[job.id] = job.state
    return states


def _lost_tasks(view: ReadTransaction, record: Sequence[Acknowledgement]) -> list[str]:
    ids = of_kind(record, "task")
    found = {task.id for task, _ in view.tasks(ids)}
    return [f"the acknowledged task {key} is lost" for key in ids if key not in found]


def _log(view: ReadTransaction) -> Iterable[LoggedEvent]:
    after = 0
    while batch := view.events(after, BATCH):
        yield from batch
        after = batch[-1].position


def _repeated(log: Sequence[LoggedEvent]) -> list[str]:
    versions: dict[str, int] = {}
    problems = []
    for each in log:
        if each.version != versions.get(each.stream, 0) + 1:
            problems.append(f"{each.stream} has version {each.version} twice or out of order")
        versions[each.stream] = each.version
    return problems


def _misread(name: str, seen: Sequence[Acknowledgement], log: Sequence[LoggedEvent]) -> list[str]:
    """A reader from the beginning must have seen a prefix of the log."""
    if not seen:
        return []
    wanted = [(each.position, each.stream, each.version) for each in log]
    given = [(each.position, each.id, each.version) for each in seen]
    if given == wanted[: len(given)]:
        return []
    at = next(index for index, each in enumerate(given) if wanted[index : index + 1] != [each])
    return [f"the reader {name} saw {given[at]}, but the log has {wanted[at : at + 1]}"]


def until_executed(store: Store, records: Iterable[Sequence[Acknowledgement]]) -> list[str]:
    """Wait until the jobs of all acknowledged tasks have been completed."""
    ids = [key for record in records for key in of_kind(record, "task")]
    end_s = time.monotonic() + WITHIN_S
    while True:
        with store.read() as view:
            jobs = [key for task, _ in view.tasks(ids) for key in jobs_of_task(task.id, task.jobs)]
            states = _job_states(view, jobs)
        waiting = [key for key, state in states.items() if state != "completed"]
        if not waiting:
            return []
        if time.monotonic() > end_s:
            return [f"{len(waiting)} jobs of tasks were not completed, such as {waiting[0]}"]
        time.sleep(LOOK_S)


def main(url: str, paths: Sequence[str]) -> dict[str, Any]:
    records = {Path(path).stem: read_record(Path(path)) for path in paths}
    store = PostgresStore(url)
    try:
        late = until_executed(store, records.values())
        findings = compare(store, records)
    finally:
        store.close()
    return {"problems": late + findings.problems, "counts": findings.counts}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2:])))
