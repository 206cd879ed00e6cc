"""A database file that is deleted or replaced under a running process: nothing is acknowledged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.errors import Misconfigured, Unavailable
from detent.store.marker import mark_store, require_store
from detent.store.sqlite import SqliteStore
from detent.store.store_url import open_store
from detent.testing.audit import audit
from detent.testing.conformance.work_actions import job_of, submit_job


def log_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def deleted(path: Path) -> None:
    path.unlink()


def replaced(path: Path) -> None:
    beside = path.with_name("other.db")
    shutil.copy(path, beside)
    beside.replace(path)


def without_its_log(path: Path) -> None:
    log_of(path).unlink()


@pytest.mark.parametrize("lose", [deleted, replaced, without_its_log])
def test_a_write_to_a_file_that_is_lost_is_not_acknowledged(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    path = tmp_path / "detent.db"
    store = SqliteStore(path)
    engine = Engine(store)
    submit_job(engine)
    lose(path)
    for _ in range(2):  # also on the connection that is made after the fault
        with pytest.raises(Unavailable, match="was deleted or replaced"):
            submit_job(engine)
    store.close()


def test_a_file_that_is_put_back_is_written_again(tmp_path: Path) -> None:
    path, away = tmp_path / "detent.db", tmp_path / "away.db"
    store = SqliteStore(path)
    engine = Engine(store)
    submit_job(engine)
    path.rename(away)
    with pytest.raises(Unavailable, match="was deleted or replaced"):
        submit_job(engine)
    away.rename(path)
    job = submit_job(engine)
    store.close()
    again = SqliteStore(path)
    assert job_of(again, job).state == "queued"
    audit(again)
    again.close()


def test_a_store_that_was_in_use_must_not_be_gone(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'detent.db'}"
    require_store(tmp_path, url)
    open_store(url).close()
    mark_store(tmp_path, url)
    require_store(tmp_path, url)
    (tmp_path / "detent.db").unlink()
    with pytest.raises(
        Misconfigured, match="was in use before and does not exist any more"
    ) as raised:
        require_store(tmp_path, url)
    assert "detent db restore FILE" in str(raised.value.hint)
    assert "detent db init" in str(raised.value.hint)
    require_store(tmp_path, f"sqlite://{tmp_path / 'other.db'}")
    (tmp_path / "detent.db").touch()
    with pytest.raises(Misconfigured):
        require_store(tmp_path, url)
    open_store(url).close()
    require_store(tmp_path, url)


def test_a_database_of_a_server_that_was_in_use_must_not_be_empty(
    tmp_path: Path, empty_postgres_url: str
) -> None:
    mark_store(tmp_path, empty_postgres_url)
    with pytest.raises(Misconfigured, match="was in use before and does not exist any more"):
        require_store(tmp_path, empty_postgres_url)
    open_store(empty_postgres_url).close()
    require_store(tmp_path, empty_postgres_url)
