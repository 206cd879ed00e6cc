"""Writes `state.json` and the rows of `system_state`: the current state of the installation.

They are updated outside the write path, about a second after a change at the latest.
Runs are counted incrementally, so that the cost of an update does not grow with their number.
"""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from detent import failpoints, feed, private_files, views
from detent.failure_log import FailureLog
from detent.integrity.hash_chain import trimmed
from detent.operations.context import Core
from detent.operations.installation import status, verdict
from detent.operations.registry import OWNER
from detent.store.log_walk import commits
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

log = logging.getLogger("detent.keeper")

#: The poll interval of the writer.
POLL_S = 0.5
#: The pause between two updates: as long as updates take a small share of the time, within a range.
SHARE, MIN_PAUSE_S, MAX_PAUSE_S = 0.05, 0.2, 1.0
#: By the last event of a run, its final state.
ENDED = {
    "run_succeeded": "succeeded",
    "run_failed": "failed",
    "run_timed_out": "timeout",
    "run_cancelled": "cancelled",
}
#: The row with the numbers of ended runs by state, up to a position of the log.
COUNTED = "run_counts"
#: By name of the row, the name in the file.
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
    """The keeper's duty: store the health and the time of the pass."""
    health = verdict(core).verdict.value
    with core.store.read() as view:
        now = views.utc(view.now())
    core.engine.transaction(
        lambda tx: tx.put_rows("system_state", {"health": health, "last_heartbeat": now})
    )
    refresh(core)
    return 1


def refresh(core: Core) -> dict[str, Any]:
    """Update the rows, and replace the file."""
    before, counted = _counted(core)
    values = _values(core)

    def put(tx: WriteTransaction) -> None:
        own = dict(values)
        if tx.rows_for_update("system_state").get(COUNTED) == before:  # else another keeper counted
            own |= {"stats": counted["runs"], COUNTED: counted}
        tx.put_rows("system_state", own)

    core.engine.transaction(put)
    with core.store.read() as view:
        rows = view.rows("system_state")
    document = {shown: rows.get(name) for name, shown in NAMES.items()}
    with private_files.replacing(core.settings.data_dir / "state.json") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
        failpoints.hit("state.replace")
    return document


def _values(core: Core) -> dict[str, Any]:
    with core.store.read() as view:
        now = views.utc(view.now())
        ended = {"ended_at": (">", 0)}
        last = view.page(Query("runs", ended, "ended_at", descending=True, limit=1))
    return {
        "queue_length": status(core, OWNER)["queueLength"],
        "last_run": views.shown(last[0]) if last else None,
        "updated_at": now,
    }


# ---- counting runs ---------------------------------------------------------------------------


def _counted(core: Core) -> tuple[Mapping[str, Any] | None, Mapping[str, Any]]:
    """The stored count, and the current count."""
    with core.store.read() as view:
        before = view.rows("system_state").get(COUNTED)
        if before is None or before["position"] < trimmed(view):
            return before, {"position": view.head(), "runs": _count_all(view)}
        return before, _count_on(view, before)


def _count_all(view: ReadTransaction) -> dict[str, int]:
    ended = {"ended_at": (">", 0)}
    counts = Counter(view.count_by(Query("runs", ended), "state"))
    counts.subtract(view.count_by(Query("runs", {**ended, "outcome": "suspended"}), "state"))
    return dict(+counts)


def _count_on(view: ReadTransaction, before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the runs that ended since the stored count; deleted runs stay counted."""
    position, runs = before["position"], Counter(before["runs"])
    for commit in chain.from_iterable(commits(view, position)):
        for name, data, count in commit.kinds_after(position, ENDED):
            if _counts(name, data):
                runs[ENDED[name]] += count
        position = commit.last
    return {"position": position, "runs": dict(runs)}


def _counts(name: str, data: str) -> bool:
    """Whether the end of a run is counted: a suspended run continues in another run."""
    suspends = name == "run_succeeded" and data
    return not suspends or json.loads(data).get("outcome") != "suspended"


class StateWriter:
    """A thread that updates the file when the log has grown. A failed update is repeated."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._position = 0
        self._failures = FailureLog(
            log, "state.json will be updated again", "state.json is updated again", MIN_PAUSE_S
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="state", daemon=True)

    def start(self) -> None:
        self._position = feed.head(self.core.store)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self.core.store.notify()
        self._thread.join()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            begun_s = time.monotonic()
            try:
                updated = self._update()
                self._failures.worked()
                if not updated:
                    self.core.store.wait(self._position, POLL_S)
                    continue
            except Exception as error:  # any error: the thread must outlive it
                if not self._stopping.is_set():
                    self._failures.failed(error)
                    self._stopping.wait(self._failures.pause_s)
                continue
            took_s = time.monotonic() - begun_s
            self._stopping.wait(min(MAX_PAUSE_S, max(MIN_PAUSE_S, took_s / SHARE)))

    def _update(self) -> bool:
        """Update the file if the log has grown since the last update."""
        head = feed.head(self.core.store)
        if head == self._position:
            return False
        refresh(self.core)
        self._position = head
        return True
