"""Failures of a repeated action: one line when they begin, one when they end, and longer pauses."""

import logging
from pathlib import Path

import pytest

from detent import feed
from detent.engine import Engine
from detent.errors import DetentError, Unavailable
from detent.failure_log import FailureLog
from detent.keeper.state_file import StateWriter
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.store_url import open_store
from tests.gateway.installation import until

AWAY = Unavailable("no connection", retry_after_s=1)
log = logging.getLogger("detent.test")


def texts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage().split(", after")[0] for each in caplog.records]


def test_an_outage_has_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    failures = FailureLog(log, "it fails", "it works", 0.2)
    pauses = []
    for _ in range(2):
        failures.worked()
        for _ in range(100):
            failures.failed(AWAY)
            pauses.append(round(failures.pause_s, 1))
        failures.worked()
    assert texts(caplog) == ["it fails: no connection", "it works"] * 2
    assert pauses[:6] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert failures.pause_s == 0.2


def test_an_error_of_another_kind_has_a_line_and_an_unexpected_one_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failures = FailureLog(log, "it fails", "it works")
    for error in (AWAY, DetentError("refused", code="refused"), OSError("full"), KeyError("x")):
        for _ in range(2):
            failures.failed(error)
    assert texts(caplog) == [
        f"it fails: {each}" for each in ("no connection", "refused", "full", "'x'")
    ]
    assert [bool(each.exc_info) for each in caplog.records] == [False, False, False, True]


def test_a_thread_logs_an_outage_of_its_store_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    store = open_store(str(tmp_path / "detent.db"))
    writer = StateWriter(
        Core(store, Engine(store), Settings(store_data_dir=str(tmp_path)), {"x": {}})
    )
    right, calls = feed.head, 0

    def head(read: object) -> int:
        nonlocal calls
        calls += 1
        if 1 < calls < 5:  # the first call is that of `start`
            raise AWAY
        return right(store)

    monkeypatch.setattr(feed, "head", head)
    writer.start()
    until(lambda: calls > 5)
    writer.stop()
    store.close()
    lines = ["state.json will be updated again: no connection", "state.json is updated again"]
    assert [each for each in texts(caplog) if "state.json" in each] == lines
