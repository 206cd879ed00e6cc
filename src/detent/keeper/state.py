"""`state.json` and the rows of `system_state`: how the installation stands now.

Written from the feed: within a second of what changed it, and never in the path of a write.
"""

import json
import logging
import threading
from pathlib import Path
from typing import Any

from detent import feed, views
from detent.errors import DetentError
from detent.kernel.health import judge
from detent.operations.core import Core
from detent.operations.registry import OWNER
from detent.operations.system import figures, status
from detent.store.port import Query

log = logging.getLogger("detent.state")

#: Events after which the file is out of date, by how their names begin.
STIRRING = ("task_", "job_", "run_")
#: In the file's spelling, by the table's.
NAMES = {
    "queue_length": "queueLength",
    "last_run": "lastRun",
    "stats": "stats",
    "health": "health",
    "last_heartbeat": "lastHeartbeat",
    "last_sync_notion": "lastSyncNotion",
    "updated_at": "updatedAt",
}


def heartbeat(core: Core) -> int:
    """The keeper's part: health and the time of its pass."""
    verdict = judge(figures(core)).verdict.value
    with core.store.read() as view:
        now = views.utc(view.now())
    core.engine.within(
        lambda tx: tx.put_rows("system_state", {"health": verdict, "last_heartbeat": now})
    )
    refresh(core)
    return 1


def refresh(core: Core) -> dict[str, Any]:
    """Count anew, keep the rows, and replace the file."""
    values = _counted(core)
    core.engine.within(lambda tx: tx.put_rows("system_state", values))
    with core.store.read() as view:
        rows = view.rows("system_state")
    document = {shown: rows.get(name) for name, shown in NAMES.items()}
    replace_file(core.settings.data_dir / "state.json", json.dumps(document, indent=2) + "\n")
    return document


def _counted(core: Core) -> dict[str, Any]:
    with core.store.read() as view:
        now = views.utc(view.now())
        states = view.count_by(Query("runs"), "state")
        ended = {"state": ["succeeded", "failed", "timeout", "cancelled"]}
        last = view.page(Query("runs", ended, "ended_at", descending=True, limit=1))
    return {
        "queue_length": status(core, OWNER)["queueLength"],
        "last_run": views.shown(last[0]) if last else None,
        "stats": dict(states),
        "updated_at": now,
    }


def replace_file(path: Path, text: str) -> None:
    """Write beside it and rename over it: nobody reads half of a text."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, "utf-8")
    beside.replace(path)


class StateWriter:
    """Follows the feed and refreshes the file when something has stirred."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="state", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self.core.store.ring()
        self._thread.join()

    def _loop(self) -> None:
        for batch in feed.follow(self.core.store, feed.head(self.core.store), poll_s=0.5):
            if self._stop.is_set():
                return
            if any(event.name.startswith(STIRRING) for event in batch):
                try:
                    refresh(self.core)
                except (DetentError, OSError) as error:
                    log.warning("state.json is not up to date: %s", error)
                self._stop.wait(0.2)
