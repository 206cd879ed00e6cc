"""A worker process for acceptances: `python -m tests.agents.accept_worker DIRECTORY NAME`.

It has the intent of the tests of acceptances. Tests kill it at failpoints.
"""

import signal
import sys
import threading
from pathlib import Path
from typing import Any

from detent.worker.worker import Worker
from tests.agents.scene import Scene
from tests.worker.waiting import installation

SETTINGS: dict[str, Any] = {
    "worker_heartbeat_ms": 200,
    "worker_poll_ms": 50,
    "worker_grace_ms": 300,
}
LEASE_MS = 3_600_000


def declare(scene: Scene, *runs: list[dict[str, Any]], **options: Any) -> None:
    """The intent `fix`, whose agent works on a branch of the repositories of the test."""
    scene.script(*runs, repos=[str(scene.directory / "repos")])
    scene.intent(**{"workspace": "worktree", "on_accept": "merge", **options})


def main(directory: Path, name: str) -> None:
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    data = directory / "data"
    with installation(data, lease_ms=LEASE_MS, audited=False, **SETTINGS) as core:
        scene = Scene(core, directory)
        declare(scene)
        worker = Worker(core, scene.app.bind(core), name=name, concurrency=2)
        worker.start()
        stopped.wait()
        worker.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
