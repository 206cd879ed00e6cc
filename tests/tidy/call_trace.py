"""Records which functions of detent are called, by all threads and in order."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "detent"


class Call(NamedTuple):
    """A call of a function: its file below src/detent, and its qualified name."""

    file: str
    function: str


@contextmanager
def traced() -> Iterator[list[Call]]:
    """The calls that are made inside, by this thread and by the threads that are started inside."""
    calls: list[Call] = []
    below = f"{SOURCE}/"

    def record(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(below):
            calls.append(Call(code.co_filename.removeprefix(below), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
