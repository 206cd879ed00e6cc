"""Two machines that share a PostgreSQL and no disk: one works, the other shows what it writes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.installation import DEADLINE_S, wait_until

CODE = """
import os, pathlib, time
print("begun", flush=True)
go = pathlib.Path("go")
while not go.exists():
    time.sleep(0.02)
(pathlib.Path(os.environ["DETENT_EVIDENCE_DIR"]) / "QA-DECISION.md").write_text("pass")
print("ended", flush=True)
"""
CONFIGURATION = f"""
[intents.work]
command = {json.dumps([sys.executable, "-c", CODE])}
directory = "."
"""


class Machine:
    """A working directory and a data directory that no other machine sees."""

    def __init__(self, root: Path, url: str) -> None:
        self.root = root
        self.data = root / "data"
        root.mkdir()
        (root / "detent.toml").write_text(CONFIGURATION)
        own = {"DETENT_STORE_URL": url, "DETENT_STORE_DATA_DIR": str(self.data)}
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(root), **own}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "detent", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        with self.start(*arguments) as process:
            output, _ = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0
            return output


@contextmanager
def running(process: "subprocess.Popen[str]") -> Iterator["subprocess.Popen[str]"]:
    with process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DEADLINE_S)


@pytest.fixture
def machines(tmp_path: Path, postgres_url: str) -> tuple[Machine, Machine]:
    return Machine(tmp_path / "works", postgres_url), Machine(tmp_path / "looks", postgres_url)


def test_output_and_evidence_are_seen_from_another_machine(
    machines: tuple[Machine, Machine],
) -> None:
    works, looks = machines
    with running(works.start("worker")):
        wait_until(works.data.exists, "the worker's data directory")
        task_id = json.loads(looks.run("submit", "work", "--json"))["id"]
        with running(looks.start("logs", "-f", task_id)) as logs:
            assert logs.stdout is not None
            assert logs.stdout.readline() == "begun\n"
            (works.root / "go").touch()
            assert logs.stdout.readline() == "ended\n"
            assert logs.wait(DEADLINE_S) == 0
        looks.run("evidence", task_id, "--save", "saved")
    (saved,) = (looks.root / "saved").glob("*/QA-DECISION.md")
    assert saved.read_text() == "pass"
    assert not (looks.data / "runs").exists()
    assert (works.data / "runs" / saved.parent.name / "summary.json").exists()
