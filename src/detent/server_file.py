"""`server.json`: the gateway process of a data directory. Gateways write it, commands read it."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from detent import private_files
from detent.settings import SERVER_FILE


def began(pid: int) -> int:
    """The start time of a process in ticks since boot; a change of the clock does not affect it."""
    # The process name is in parentheses and may contain any character: split after the last one.
    text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    return int(text.rpartition(")")[2].split()[19])


def read_live(data_dir: Path) -> Mapping[str, Any] | None:
    """The content of `server.json`, if the gateway that wrote it is still running."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        server: dict[str, Any] = json.loads((data_dir / SERVER_FILE).read_text("utf-8"))
        if began(int(server["pid"])) == server["began"]:
            return server
    return None


def announce(data_dir: Path, server: Mapping[str, Any]) -> None:
    """Write `server.json` for this process, unless another running gateway has written it."""
    other = read_live(data_dir)
    if other is not None and other["pid"] != os.getpid():
        return
    own = {**server, "pid": os.getpid(), "began": began(os.getpid())}
    with private_files.replacing(data_dir / SERVER_FILE) as file:
        json.dump(own, file)


def withdraw(data_dir: Path) -> None:
    """Remove `server.json` if this process wrote it."""
    server = read_live(data_dir)
    if server is not None and server["pid"] == os.getpid():
        (data_dir / SERVER_FILE).unlink(missing_ok=True)
