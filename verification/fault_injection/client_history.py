"""What clients requested and received, as lines of a file: invoke, then ok, refused or unknown.

An answer that never came is `unknown`: it may have happened or not, and both are right.
"""

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"


class Op(NamedTuple):
    """One thing that a client asked for, and how it ended."""

    kind: str
    #: The idempotency key of a submission; else empty.
    key: str = ""
    #: The task or job that it was about, or that it created.
    id: str = ""
    outcome: str = UNKNOWN
    #: Further fields of the answer.
    answer: str = ""


class History:
    """Appends to a file; safe to use from any thread."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        self._next = 0

    def invoke(self, kind: str, **about: Any) -> int:
        with self._lock:
            self._next += 1
            self._write({"n": self._next, "at": "invoke", "kind": kind, **about})
            return self._next

    def end(self, number: int, outcome: str, **more: Any) -> None:
        with self._lock:
            self._write({"n": number, "at": outcome, **more})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> list[Op]:
    return ops(json.loads(line) for line in path.read_text().splitlines())


def ops(lines: Iterable[dict[str, Any]]) -> list[Op]:
    """Invocations with how they ended; one without an end is unknown."""
    begun: dict[int, dict[str, Any]] = {}
    for line in lines:
        if line["at"] == "invoke":
            begun[line["n"]] = {**line, "outcome": UNKNOWN}
        else:
            begun[line["n"]].update({**line, "outcome": line["at"]})
    return [
        Op(
            each["kind"],
            each.get("key", ""),
            each.get("id", ""),
            each["outcome"],
            str(each.get("answer", "")),
        )
        for each in begun.values()
    ]
