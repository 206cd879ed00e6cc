"""The roles of processes: a gateway, a worker, a keeper, or one that only opens the store.

Runs in the forked process, on the same composition root as `detent up`.
"""

import faulthandler
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent import failpoints
from detent.operations.leader_election import LeaderElection
from detent.service import Service, open_core, run_until_stopped
from detent.settings import Loaded, Settings
from detent.store.clock import HostClock
from verification.fault_injection import mutants
from verification.fault_injection.environment import CLOCK, MUTANT, REFUSED
from verification.fault_injection.injected_app import REFERENCE

PARTS: Mapping[str, Mapping[str, bool]] = {
    "gateway": {"gateway": True, "worker": False, "keeper": False},
    "worker": {"gateway": False, "worker": True, "keeper": False},
    "keeper": {"gateway": False, "worker": False, "keeper": True},
    "opener": {"gateway": False, "worker": False, "keeper": False},
}
#: The term of a leader is no setting; here others must not wait long for one that was killed.
TERM_US = 600_000


def play(request: Mapping[str, Any]) -> None:
    """Be that process until it is stopped."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", force=True)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    LeaderElection.__init__.__defaults__ = (TERM_US,)
    HostClock.__call__ = _jumping_clock  # type: ignore[method-assign, assignment]
    failpoints.arm(os.environ)
    mutant = os.environ.get(MUTANT)
    for change in mutants.MUTANTS[mutant]() if mutant else ():
        change.start()
    loaded = Loaded(Settings(**request["settings"]), {}, {}, None)
    parts = PARTS[request["role"]]
    with open_core(loaded) as core:
        core.engine.refused = Noted(Path(request["directory"]) / REFUSED)
        apps = (REFERENCE,) if parts["worker"] else ()
        service = Service(core, apps=apps, **parts)
        ready = Path(request["directory"]) / f"{request['name']}.ready"
        run_until_stopped(service, ready=lambda: _say(ready, service.url or "up"))


class Noted(Counter[str]):
    """Counts refusals by code, and notes each refused stale report in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def __setitem__(self, code: str, count: int) -> None:
        super().__setitem__(code, count)
        if code == "stale_fence":
            with self._path.open("ab") as file:
                file.write(b".")


def _say(ready: Path, text: str) -> None:
    """Whole or not at all: the parent waits for it."""
    draft = ready.with_suffix(".part")
    draft.write_text(text)
    draft.replace(ready)


def _jumping_clock(_: HostClock) -> int:
    """The host's clock, as far off as the file says. A server's clock is out of our reach."""
    try:
        off_us = int(Path(os.environ.get(CLOCK, "")).read_text() or 0)
    except OSError:
        off_us = 0
    return time.time_ns() // 1_000 + off_us
