"""`detent gc`: says what would go, and then lets it go."""

import json
import os
from io import BytesIO
from pathlib import Path

import pytest

from detent.service import open_core
from detent.settings_loader import load
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def _waste(data: Path) -> None:
    """A blob that nothing names, and a directory of an unknown run, both two days old."""
    with open_core(load()) as core:
        core.store.blobs.put(BytesIO(b"waste"))
    (data / "runs" / "unknown-r1").mkdir(parents=True)
    for path in (*data.glob("blobs/??/*"), data / "runs" / "unknown-r1"):
        at_s = path.stat().st_mtime - 2 * 86_400
        os.utime(path, (at_s, at_s))


def test_a_dry_run_says_what_the_real_one_does(run: Run, data: Path) -> None:
    would = json.loads(run("gc", "--dry-run", "--json").stdout)
    assert (would["dry_run"], would["blobs"], would["bytes"]) == (True, 1, 5)
    assert (data / "runs" / "unknown-r1").exists()
    gone = json.loads(run("gc", "--json").stdout)
    assert gone == {**would, "dry_run": False}
    assert gone["directories"] == 1
    assert not (data / "runs" / "unknown-r1").exists()
    assert list(data.glob("blobs/??/*")) == []
    assert "DELETED" in run("gc").stdout


def test_wrong_settings_are_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETENT_RETENTION_DONE_DAYS", "-1")
    assert "retention.done_days" in run("gc", code=7).stderr
    assert "retention.done_days" in run("tasks", code=7).stderr
