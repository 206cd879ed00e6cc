"""A soak: even load on real processes for minutes, and samples of what must not grow.

Retention forgets what has ended, so the work that is kept stays the same. Then memory, the files
and dead rows must stay the same too. Only the log grows: of what was forgotten it keeps the events
without their data, and the report has how many bytes that takes.
"""

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import apsw
import psutil

from detent.store.port import Store
from detent.testing.audit import audit
from verification.fault_injection.client_history import OK
from verification.fault_injection.cluster import Cluster
from verification.fault_injection.environment import SQLITE, Environment, at_rest, until
from verification.fault_injection.http_client import ask
from verification.fault_injection.process_supervisor import ProcessSupervisor

if TYPE_CHECKING:  # a plain installation has no PostgreSQL
    import psycopg

Say = Callable[[str], None]
Sample = dict[str, int]

SIZE: Mapping[str, int] = {"gateway": 1, "worker": 1, "keeper": 1}
#: Work is forgotten as soon as retention comes by. Nothing is hurried here: leases and looks are
#: as long as in production.
SETTINGS: Mapping[str, Any] = {
    "retention_done_days": 0,
    "retention_cancelled_days": 0,
    "retention_failed_days": 0,
    "retention_run_directory_days": 0,
    "retention_output_days": 0,
    "engine_key_lifetime_s": 60,
    "worker_lease_ms": 30_000,
    "worker_heartbeat_ms": 10_000,
    "worker_poll_ms": 1_000,
    "keeper_interval_ms": 1_000,
}
#: Submissions a second: retention takes two thousand pieces of work a minute at most.
RATE = 20
SAMPLE_S = 5.0
#: Retention comes by once a minute. In less than this many minutes nothing can be flat.
LEAST_MINUTES = 5.0
#: What may differ between the second quarter and the last: a share, and a number of bytes or rows.
SHARE = 1.15
SLACK: Mapping[str, int] = {
    "memory": 8 << 20,
    "file": 4 << 20,
    "wal": 8 << 20,
    # PostgreSQL keeps old segments for later, by its own measure.
    "segments": 64 << 20,
    "dead rows": 2_000,
}
#: Of the log, which only grows, PostgreSQL cleans up when a fifth is dead, and a little later.
DEAD_SHARE = 0.3
MEGABYTE = 1 << 20


@dataclass(slots=True)
class Report:
    """Samples in order, what was submitted and done, and what is wrong."""

    samples: list[Sample] = field(default_factory=list)
    submitted: int = 0
    unanswered: int = 0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        if len(self.samples) < 8:
            return f"{self.submitted} jobs, {len(self.samples)} samples: too short to tell"
        parts = [f"{self.submitted} jobs"]
        for name in sorted(self.samples[-1]):
            early, late = quarters([each[name] for each in self.samples])
            parts.append(f"{name} {_size(name, early)} then {_size(name, late)}")
        return ", ".join(parts)


def run(supervisor: ProcessSupervisor, where: Path, url: str, minutes: float, say: Say) -> Report:
    """Load one installation for so long; then everything must have ended, and nothing grown."""
    report = Report()
    environment = Environment(supervisor, where / "environment", url, **SETTINGS)
    cluster = Cluster(environment, SIZE)
    try:
        cluster.start()
        with _sampling(environment, url) as look, _load(environment, cluster, report):
            _watch(cluster, look, minutes, report, say)
        with environment.core() as core:
            until(lambda: at_rest(core), "all work has ended")
        report.problems += environment.end()
        with environment.core() as core:
            report.problems += _differences(core.store)
    finally:
        environment.end()
    if minutes >= LEAST_MINUTES:
        report.problems += [*grown(report.samples), *too_little(report, minutes)]
    return report


def _differences(store: Store) -> list[str]:
    """Of most work the log has kept the names of events alone: only the rows can be checked."""
    try:
        audit(store)
    except AssertionError as error:
        return [f"P8: {error}"]
    return []


@contextmanager
def _load(environment: Environment, cluster: Cluster, report: Report) -> Iterator[None]:
    """This many jobs a second over HTTP, whatever the answers are."""
    end = threading.Event()
    rng = Random(1)

    def submit() -> None:
        while not end.wait(1 / RATE):
            body = {"intent": "small", "payload": {"key": str(report.submitted)}}
            address = cluster.address(rng) or ""
            key = f"soak-{report.submitted}-{report.unanswered}"
            answered = ask(address, environment.token, "POST", "/api/jobs", body, key=key)
            report.submitted += answered.outcome == OK
            report.unanswered += answered.outcome != OK

    thread = threading.Thread(target=submit, name="soak-load", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _watch(
    cluster: Cluster, look: Callable[[], Sample], minutes: float, report: Report, say: Say
) -> None:
    ends_s = time.monotonic() + minutes * 60
    never = threading.Event()
    while (left_s := ends_s - time.monotonic()) > 0:
        never.wait(min(SAMPLE_S, left_s))
        report.samples.append({**_memory(cluster), **look()})
        if len(report.samples) % 12 == 0:
            sizes = {name: _size(name, value) for name, value in report.samples[-1].items()}
            say(f"{max(left_s, 0):5.0f} s left: {report.submitted} jobs, {sizes}")


# ---- what is sampled -------------------------------------------------------------------------


def _memory(cluster: Cluster) -> Sample:
    found: Counter[str] = Counter()
    for role, members in cluster.members.items():
        for child in members:
            found[f"memory of the {role}"] += psutil.Process(child.pid).memory_info().rss
    return dict(found)


@contextmanager
def _sampling(environment: Environment, url: str) -> Iterator[Callable[[], Sample]]:
    if environment.store == SQLITE:
        path = environment.data_dir / "detent.db"
        file = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
        try:
            yield lambda: _measure_file(path, file)
        finally:
            file.close()
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        yield lambda: _measure_server(connection)


#: Pages of the log and its indexes, of everything else, and those that are unused.
IN_FILE = """
    SELECT sum(s.pgsize) FILTER (WHERE t.tbl_name = 'commits'),
           sum(s.pgsize) FILTER (WHERE t.tbl_name IS NOT 'commits')
    FROM dbstat AS s LEFT JOIN sqlite_schema AS t ON t.name = s.name
    WHERE s.aggregate = 1
"""


def _measure_file(path: Path, file: apsw.Connection) -> Sample:
    log, rest = file.execute(IN_FILE).get
    unused = file.pragma("freelist_count") * file.pragma("page_size")
    wal = path.with_name(path.name + "-wal")
    return {
        "bytes of the log": log,
        "file without the log": rest + unused,
        "wal": wal.stat().st_size if wal.exists() else 0,
        "events": file.execute("SELECT coalesce(sum(events), 0) FROM commits").get,
    }


#: The log and the positions of its records; all other relations; what is dead in either.
IN_SERVER = """
    SELECT log.bytes,
           pg_database_size(current_database()) - log.bytes,
           (SELECT sum(size) FROM pg_ls_waldir()),
           (SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname <> 'commits'),
           (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'commits'),
           (SELECT count(*) FROM commits),
           (SELECT sum(events) FROM commits)
    FROM (SELECT pg_total_relation_size('commits')
               + pg_total_relation_size('commit_positions') AS bytes) AS log
"""


def _measure_server(connection: "psycopg.Connection[Any]") -> Sample:
    row = connection.execute(IN_SERVER).fetchone()
    assert row is not None
    return {name: int(value or 0) for name, value in zip(OF_A_SERVER, row, strict=True)}


OF_A_SERVER = (
    *("bytes of the log", "file without the log", "segments of the wal"),
    *("dead rows", "dead records of the log", "records of the log", "events"),
)


# ---- what is wrong ---------------------------------------------------------------------------


def quarters(values: list[int]) -> tuple[float, float]:
    """The middle value of the second quarter and of the last: the first is for warming up."""
    quarter = len(values) // 4
    return statistics.median(values[quarter : 2 * quarter]), statistics.median(values[-quarter:])


def grown(samples: list[Sample]) -> Iterator[str]:
    """Whatever has grown though the work that is kept has not."""
    for name in samples[-1]:
        slack = next((SLACK[kind] for kind in SLACK if name.startswith(kind)), None)
        if slack is None:
            continue  # the log, which only grows
        early, late = quarters([each[name] for each in samples])
        if late > early * SHARE + slack:
            yield f"grown: {name} from {_size(name, early)} to {_size(name, late)}"
    last = samples[-1]
    dead, records = last.get("dead records of the log", 0), last.get("records of the log", 0)
    if dead > records * DEAD_SHARE + SLACK["dead rows"]:
        yield f"grown: {dead} records of the log are dead, of {records}"


def too_little(report: Report, minutes: float) -> Iterator[str]:
    """A soak without load, or in which nothing was forgotten, shows nothing."""
    if report.submitted < minutes * 60 * RATE / 2:
        yield f"too little: {report.submitted} jobs in {minutes:g} minutes"
    if report.unanswered > report.submitted / 100:
        yield f"too little: {report.unanswered} submissions were not answered"


def _size(name: str, value: float) -> str:
    is_count = name == "events" or "rows" in name or "records" in name
    return f"{value:.0f}" if is_count else f"{value / MEGABYTE:.1f} MB"
