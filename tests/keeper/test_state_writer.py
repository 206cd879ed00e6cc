"""state.json follows the log, also after a failed update or a failed read of the log."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent import feed
from detent.engine import Engine
from detent.errors import Unavailable
from detent.keeper import state_file
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.store_url import open_store
from tests.gateway.installation import until


@contextmanager
def writing(directory: Path) -> Iterator[Core]:
    store = open_store(str(directory / "detent.db"))
    core = Core(store, Engine(store), Settings(store_data_dir=str(directory)), {"x": {}})
    writer = state_file.StateWriter(core)
    writer.start()
    try:
        yield core
    finally:
        writer.stop()
        store.close()


def queue_length(directory: Path) -> int | None:
    try:
        return int(json.loads((directory / "state.json").read_text())["queueLength"])
    except OSError:
        return None


@pytest.mark.parametrize(
    "error", [OSError("disk full"), Unavailable("cut", retry_after_s=1), ValueError("unexpected")]
)
@pytest.mark.parametrize(("where", "name"), [(state_file, "refresh"), (feed, "head")])
def test_a_failed_update_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, error: Exception
) -> None:
    """One event, one failure, and no other event that would update the file."""
    failed: list[bool] = []
    right = getattr(where, name)

    def failing(*given: Any) -> Any:
        if not failed:
            failed.append(True)
            raise error
        return right(*given)

    with writing(tmp_path) as core:
        monkeypatch.setattr(where, name, failing)
        command = c.SubmitTask("t", "p", "board", "x", "cli", queue=True)
        core.engine.do(command, c.Actor("person"))
        until(lambda: queue_length(tmp_path) == 1)
    assert failed


def test_many_events_are_few_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update counts tables, so it is not made for each batch of the log."""
    updates: list[int] = []
    right = state_file.refresh
    monkeypatch.setattr(state_file, "MIN_PAUSE_S", 60.0)
    monkeypatch.setattr(state_file, "MAX_PAUSE_S", 60.0)

    def counted(core: Core) -> dict[str, Any]:
        updates.append(1)
        return right(core)

    monkeypatch.setattr(state_file, "refresh", counted)
    with writing(tmp_path) as core:
        for number in range(20):
            command = c.SubmitTask(f"t{number}", "p", "board", "x", "cli", queue=True)
            core.engine.do(command, c.Actor("person"))
        until(lambda: (queue_length(tmp_path) or 0) > 0)
    assert updates == [1]


def test_a_failed_wait_ends_no_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()
    with writing(tmp_path) as core:
        right = core.store.wait

        def failing(after: int, timeout_s: float) -> bool:
            if not failed.is_set():
                failed.set()
                raise Unavailable("cut", retry_after_s=1)
            return right(after, timeout_s)

        monkeypatch.setattr(core.store, "wait", failing)
        until(failed.is_set)
        command = c.SubmitTask("t", "p", "board", "x", "cli", queue=True)
        core.engine.do(command, c.Actor("person"))
        until(lambda: queue_length(tmp_path) == 1)
