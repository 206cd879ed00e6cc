"""`detent probe`: the health checks of containers, against real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.installation import Installation, wait_until
from tests.ports import free_port

UNAVAILABLE = 6


@pytest.fixture
def detent(tmp_path: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path)
    installation.data = installation.project / ".detent"
    config = f'[gateway]\nport = {free_port()}\n[worker]\nname = "mine"\n'
    (installation.project / "detent.toml").write_text(config)
    yield installation
    installation.stop()


def works(detent: Installation, part: str) -> bool:
    return detent.run("probe", part).returncode == 0


def test_parts_that_run_and_parts_that_do_not(detent: Installation) -> None:
    for part in ("gateway", "worker", "keeper"):
        refused = detent.run("probe", part)
        assert refused.returncode == UNAVAILABLE, refused.stdout
        assert "Traceback" not in refused.stderr
    with (detent.home / "up.log").open("w") as log:
        detent.process = subprocess.Popen(
            [sys.executable, "-m", "detent", "up"],
            cwd=detent.project,
            env=detent.environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    for part in ("gateway", "worker", "keeper"):
        wait_until(partial(works, detent, part), f"the {part}")
    assert [row["name"] for row in detent.json("workers")["items"]] == ["mine"]
    assert json.loads(detent.run("probe", "worker", "--json").stdout) == {
        "part": "worker",
        "works": True,
    }
    named = {**detent.environment, "DETENT_WORKER_NAME": "another"}
    other = subprocess.run(
        [sys.executable, "-m", "detent", "probe", "worker"],
        cwd=detent.project,
        env=named,
        capture_output=True,
        text=True,
        check=False,
    )
    assert other.returncode == UNAVAILABLE
    assert "No worker named another" in other.stderr


def test_an_unknown_part_is_refused(tmp_path: Path) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "detent", "probe", "engine"],
        env={**os.environ, "DETENT_STORE_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 2
    assert "'gateway', 'worker', 'keeper'" in asked.stderr
