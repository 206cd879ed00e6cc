"""`python -m tests.e2e.shifted …` is `detent …` whose clock is as far off as a file says.

The clock that is moved is the one that judges everything: the host's for SQLite, and for PostgreSQL
the server's, to whose answer the distance is added in the process that asked. The server itself
cannot use another time.
"""

import os
import time
from pathlib import Path
from typing import Any

from detent.cli.main import main
from detent.store.clock import HostClock, Moment
from detent.store.postgres import store as postgres_store

#: The environment variable that names the file; in it are microseconds.
CLOCK = "DETENT_TEST_CLOCK"


def off_us() -> int:
    return int(Path(os.environ[CLOCK]).read_text())


def _host_clock(_: HostClock) -> int:
    return time.time_ns() // 1_000 + off_us()


def move_clocks() -> None:
    HostClock.__call__ = _host_clock  # type: ignore[method-assign, assignment]
    moment = postgres_store.PostgresStore._moment

    def moved(self: postgres_store.PostgresStore, server_now: int, *written: Any) -> Moment:
        return moment(self, server_now + off_us(), *written)

    postgres_store.PostgresStore._moment = moved  # type: ignore[method-assign, assignment]


if __name__ == "__main__":
    move_clocks()
    main()
