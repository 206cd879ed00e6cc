"""`server.json`: which process serves a data directory. Written by gateways, read by commands."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from detent import private_files
from detent.settings import SERVER_FILE


def began(pid: int) -> int:
    """When a process began, in ticks since boot: no change of the clock moves it."""
    # The name stands in brackets and may hold anything, so what follows is counted behind it.
    text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    return int(text.rpartition(")")[2].split()[19])


def read_live(data_dir: Path) -> Mapping[str, Any] | None:
    """What the gateway of a data directory has written, if its process is alive."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        server: dict[str, Any] = json.loads((data_dir / SERVER_FILE).read_text("utf-8"))
        if began(int(server["pid"])) == server["began"]:
            return server
    return None


def announce(data_dir: Path, server: Mapping[str, Any]) -> None:
    """Write it for this process, unless another gateway that is alive has done so."""
    other = read_live(data_dir)
    if other is not None and other["pid"] != os.getpid():
        return
    own = {**server, "pid": os.getpid(), "began": began(os.getpid())}
    beside = data_dir / f"{SERVER_FILE}.{os.getpid()}.new"
    private_files.write_text(beside, json.dumps(own))
    beside.replace(data_dir / SERVER_FILE)


def withdraw(data_dir: Path) -> None:
    """Remove it if it is this process's; another gateway keeps its own."""
    server = read_live(data_dir)
    if server is not None and server["pid"] == os.getpid():
        (data_dir / SERVER_FILE).unlink(missing_ok=True)
