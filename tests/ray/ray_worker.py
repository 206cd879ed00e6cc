"""A worker process for the tests: python -m tests.ray.ray_worker DIRECTORY ADDRESS."""

import sys
import threading
from pathlib import Path
from typing import Any

from tests.ray import ray_app
from tests.worker.waiting import installation, working

if __name__ == "__main__":
    directory, address = sys.argv[1:]
    settings: dict[str, Any] = {"ray_address": address, "worker_heartbeat_ms": 1_000}
    with (
        installation(Path(directory), lease_ms=6_000, audited=False, **settings) as core,
        working(core, ray_app.app),
    ):
        threading.Event().wait()
