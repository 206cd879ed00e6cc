"""A database of storage layout 1 is converted by one command, wherever it was interrupted."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from detent.engine import Engine
from detent.errors import Broken, Misconfigured
from detent.integrity import hash_chain
from detent.integrity.upgrade import upgrade_sqlite
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store import layout_upgrade
from detent.store.sqlite import SqliteStore
from detent.store.sqlite.schema import MIGRATIONS
from detent.store.types import Delivery, LoggedEvent
from detent.testing.audit import audit, picture
from detent.testing.clock import START, VirtualClock
from detent.testing.conformance.case import Case
from detent.testing.conformance.reads import busy
from detent.testing.conformance.work_actions import claim_one, complete, do, refusal, submit_job
from tests.store import old_databases

DEADLINE_S = 120
LEASE_US = 30_000_000


def no_progress(what: str, position: int) -> None:
    assert what
    assert position > 0


def story(path: Path, then: Callable[[Case], Any] = lambda _: None) -> dict[str, Any]:
    """Write work of many kinds, deleted work, and a chain; returns all that the store shows."""
    case = Case(lambda clock: SqliteStore(path, clock))
    busy(case)
    do(case.engine, c.DeleteJob(finished(case.engine)))
    hash_chain.extend_chain(case.store)
    finished(case.engine)
    with case.store.write() as tx:
        tx.put_outbox([Delivery(0, "hook", "s", 3, "{}", 5)])
        tx.put_rows("webhooks", {"hook": {"cursor": 3}})
    then(case)
    found = picture(case.store)
    case.close()
    return found


def finished(engine: Engine) -> str:
    job = submit_job(engine)
    complete(engine, claim_one(engine))
    return job


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new.db"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    (tmp_path / "old").mkdir()
    return tmp_path / "old" / "detent.db"


def known_before(found: dict[str, Any]) -> dict[str, Any]:
    """A picture without what the earlier layout did not have: the usage of projects."""
    return {name: rows for name, rows in found.items() if name != "project_usage"}


def opened(path: Path) -> SqliteStore:
    return SqliteStore(path, VirtualClock(START + 86_400_000_000))


# ---- the conversion --------------------------------------------------------------------------


def test_everything_is_as_before(new: Path, old: Path) -> None:
    before = story(new)
    old_databases.copy(new, old)
    upgraded = upgrade_sqlite(str(old), START, no_progress)
    assert upgraded is not None
    assert upgraded.events == len(before["log"])
    store = opened(old)
    assert known_before(picture(store)) == known_before(before)
    with store.read() as view:
        assert [row.stream for row in view.outbox("hook", 10)] == ["s"]
        for stream in {event.stream for event in before["log"]}:
            logged = [event for event in before["log"] if event.stream == stream]
            assert view.events(0, 1_000, stream=stream) == logged
            assert view.version_of(stream) == logged[-1].version
    audit(store)
    assert verify(store, upgraded.anchor).differences == []
    store.close()


def test_work_goes_on(new: Path, old: Path) -> None:
    gone = []
    story(new, lambda case: gone.append(finished(case.engine)))
    old_databases.copy(new, old)
    upgrade_sqlite(str(old), START, no_progress)
    store = opened(old)
    engine = Engine(store)
    do(engine, c.DeleteJob(gone[0]))
    assert refusal(engine, c.SubmitJob(gone[0], "p", "dig")) == "job_exists"
    finished(engine)
    hash_chain.extend_chain(store)
    audit(store)
    store.close()


def test_the_id_of_work_that_was_deleted_before_is_not_given_again(new: Path, old: Path) -> None:
    deleted: list[str] = []

    def delete(case: Case) -> None:
        deleted.append(finished(case.engine))
        do(case.engine, c.DeleteJob(deleted[0]))

    story(new, delete)
    old_databases.copy(new, old)
    upgrade_sqlite(str(old), START, no_progress)
    store = opened(old)
    again = c.SubmitJob(deleted[0], "p", "dig")
    assert refusal(Engine(store), again) == "job_exists"
    store.close()


def test_commits_end_at_gaps_and_with_chain_blocks() -> None:
    def event(position: int) -> LoggedEvent:
        return LoggedEvent(position, "s", position, "p", "x", 1, None, position, "a", "{}", None)

    events = [event(position) for position in (1, 2, 3, 5, 6, 7)]
    made = layout_upgrade.convert(events, {2, 7})
    assert [(each.id, each.events) for each in made] == [(1, 2), (3, 1), (5, 3)]
    many = [event(position) for position in range(1, 1_202)]
    assert [each.events for each in layout_upgrade.convert(many, set())] == [500, 500, 201]
    assert made[-1].at == 7


# ---- refusals --------------------------------------------------------------------------------


def test_an_old_database_is_refused_with_the_command_to_run(new: Path, old: Path) -> None:
    story(new)
    old_databases.copy(new, old)
    content = old.read_bytes()
    with pytest.raises(Misconfigured, match="storage layout of an earlier version") as caught:
        SqliteStore(old)
    assert "detent db upgrade" in str(caught.value.hint)
    assert old.read_bytes()[:4096] == content[:4096]


def test_an_old_database_without_events_is_upgraded_at_the_start(old: Path) -> None:
    old_databases.empty(old).close()
    store = opened(old)
    finished(Engine(store))
    audit(store)
    store.close()
    assert upgrade_sqlite(str(old), START, no_progress) is None


def test_a_broken_chain_is_not_converted(new: Path, old: Path) -> None:
    story(new)
    old_databases.copy(new, old)
    raw = apsw.Connection(str(old))
    raw.execute("UPDATE events SET actor = 'person:eve' WHERE position = 2")
    raw.close()
    with pytest.raises(Broken, match="The hash chain is broken"):
        upgrade_sqlite(str(old), START, no_progress)
    assert apsw.Connection(str(old)).execute("SELECT count(*) FROM commits").get == 0


def test_the_migration_alone_removes_nothing(new: Path, old: Path) -> None:
    story(new)
    old_databases.copy(new, old)
    raw = apsw.Connection(str(old))
    raw.execute(MIGRATIONS[8].text).fetchall()
    with pytest.raises(apsw.ConstraintError, match="run_detent_db_upgrade_instead"):
        raw.execute(MIGRATIONS[9].text).fetchall()


# ---- interruptions, and size -----------------------------------------------------------------

UPGRADE = """
import sys
from detent.integrity.upgrade import upgrade_sqlite
from detent.store.sqlite import old_layout
old_layout.CHUNK = int(sys.argv[2])
upgrade_sqlite(sys.argv[1], 1, lambda what, position: None)
"""


def killed_at(path: Path, passage: int, chunk: int) -> bool:
    """Upgrade in a process that is killed before its n-th commit; False if it was not."""
    armed = {"DETENT_TESTING": "1", "DETENT_FAILPOINTS": f"migration.commit:kill:{passage}"}
    run = subprocess.run(
        [sys.executable, "-c", UPGRADE, str(path), str(chunk)],
        env={**os.environ, **armed},
        timeout=DEADLINE_S,
        capture_output=True,
        check=False,
    )
    assert run.returncode in (0, -9), run.stderr
    return run.returncode != 0


def test_it_continues_after_a_kill_at_any_point(new: Path, old: Path) -> None:
    before = story(new)
    old_databases.copy(new, old)
    chunk = len(before["log"]) // 3
    kills, passage = 0, 1
    while killed_at(old, passage, chunk):  # each process commits one part more, or none
        kills, passage = kills + 1, 3 - passage
    assert kills >= 6
    store = opened(old)
    assert known_before(picture(store)) == known_before(before)
    audit(store)
    store.close()


def test_a_hundred_thousand_events(new: Path, old: Path) -> None:
    store = SqliteStore(new, VirtualClock())
    engine = Engine(store)
    submit_job(engine, job_id="job-000000")
    complete(engine, claim_one(engine))
    store.close()
    old_databases.copy(new, old)
    old_databases.multiply(old, "job-000000", 17_000)
    upgraded = upgrade_sqlite(str(old), START, no_progress)
    assert upgraded is not None
    assert upgraded.events == 17_001 * 6
    store = SqliteStore(old, VirtualClock())
    with store.read() as view:
        assert view.head() == upgraded.events
        assert len(view.events(0, 100, stream="job-012345")) == 6
    store.close()


# ---- a kill during the verification ----------------------------------------------------------

KILLED_WHILE_VERIFYING = """
import os, signal, sys
from detent.integrity.upgrade import upgrade_sqlite
seen = []

def progress(what, position):
    seen.append(what)
    if "convert" in seen and what != "convert":
        os.kill(os.getpid(), signal.SIGKILL)

upgrade_sqlite(sys.argv[1], 1, progress)
"""


@pytest.fixture
def unverified(new: Path, old: Path) -> Path:
    """A database whose upgrade was killed while it was verified."""
    story(new)
    old_databases.copy(new, old)
    run = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_VERIFYING, str(old)],
        timeout=DEADLINE_S,
        capture_output=True,
        check=False,
    )
    assert run.returncode == -9, run.stderr
    return old


def test_an_upgrade_that_was_killed_while_it_was_verified_is_verified_again(
    unverified: Path,
) -> None:
    upgraded = upgrade_sqlite(str(unverified), 1, no_progress)
    assert upgraded is not None
    store = opened(unverified)
    audit(store)
    with store.read() as view:
        assert view.events(0, 10_000)[-1].position == upgraded.events
    store.close()
    assert upgrade_sqlite(str(unverified), 1, no_progress) is None


def test_the_second_verification_finds_what_is_wrong(unverified: Path) -> None:
    database = apsw.Connection(str(unverified))
    database.execute("UPDATE ended_jobs SET state = 'failed' WHERE state = 'completed'")
    database.close()
    for _ in range(2):
        with pytest.raises(Broken, match="rows differ from the log"):
            upgrade_sqlite(str(unverified), 1, no_progress)


def test_work_may_go_on_before_the_second_verification(unverified: Path) -> None:
    store = opened(unverified)
    finished(Engine(store))
    store.close()
    upgraded = upgrade_sqlite(str(unverified), 1, no_progress)
    assert upgraded is not None
    store = opened(unverified)
    with store.read() as view:
        assert view.head() > upgraded.events
    store.close()
