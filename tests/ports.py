"""Ports for processes that need a port number before they start, or the same one again."""

import itertools
import os
import random
import socket

#: Below the range from which the kernel takes ports for outgoing connections: between being chosen
#: and being listened on, none of these is given to anybody else. Servers of PostgreSQL have others.
FIRST, FOR_EACH_PROCESS = 10_000, 1_000
#: Browsers refuse to connect to it.
REFUSED_BY_BROWSERS = 10_080
_turns = itertools.count(random.randrange(FOR_EACH_PROCESS))


def free_port() -> int:
    """A port that no process listens on; no parallel session gets the same one."""
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 8
    for turn in itertools.islice(_turns, FOR_EACH_PROCESS):
        port = FIRST + process * FOR_EACH_PROCESS + turn % FOR_EACH_PROCESS
        if port == REFUSED_BY_BROWSERS:
            continue
        with socket.socket() as trying:
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trying.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError("there is no free port")
