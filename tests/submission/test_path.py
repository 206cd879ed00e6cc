"""How many of detent's own files and frames a `POST /add` passes until it is committed.

The measured request is one like others before it. The first request of a kind takes the general
path: its fields are checked, the kernel decides, and both are remembered. The tokens and the
intents are read once in a second; here they are read before.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import detent
from detent.engine import engine
from detent.engine.engine import Engine
from detent.gateway import auth, operation_dispatcher
from tests.gateway.installation import installed

OWN = f"{Path(detent.__file__).parent}/"
#: The follower of the log, its hub, the server's timer and the thread that receives notifications
#: run at any time: they are not counted.
ASIDE_THREAD = "detent-feed"
ASIDE_FILES = ("gateway/feed_hub.py", "gateway/server.py", "store/postgres/notifier.py")
#: The gateway has 6 of the files, a store 6.
MAX_FILES = 18
MAX_FRAMES = 11
BODY = {"source": "api", "intent": "runQA", "payload": {"project": "demo"}}


class Trace:
    """The files and the deepest stack of detent's own frames while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.files: set[str] = set()
        self.deepest: list[str] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.on or event != "call" or not frame.f_code.co_filename.startswith(OWN):
            return
        stack = list(own_frames(frame))
        if threading.current_thread().name == ASIDE_THREAD or stack[-1].startswith(ASIDE_FILES):
            return
        self.files.add(frame.f_code.co_filename.removeprefix(OWN))
        if len(stack) > len(self.deepest):
            self.deepest = stack


def own_frames(frame: FrameType | None) -> Iterator[str]:
    """Innermost first."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(OWN):
            yield f"{code.co_filename.removeprefix(OWN)}:{code.co_name}"
        frame = frame.f_back


@contextmanager
def traced() -> Iterator[Trace]:
    """Every thread that is started from here on is traced."""
    trace, before = Trace(), sys.gettrace()
    threading.settrace(trace)
    try:
        yield trace
    finally:
        trace.on = False
        threading.settrace(before)


def test_a_submission_passes_no_more_files_and_frames_than_this(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Engine._commit_once

    def committed(self: Engine, asks: Any) -> Any:
        results = commit(self, asks)
        trace.on = False
        return results

    monkeypatch.setattr(Engine, "_commit_once", committed)
    for module in (auth, operation_dispatcher):
        monkeypatch.setattr(module, "FRESH_S", 600.0)
    monkeypatch.setattr(engine, "LIMITS_FRESH_S", 600.0)
    with traced() as trace, installed(tmp_path, store_url=url) as gateway:
        client = gateway.client()
        for _ in range(3):  # what is done once, as the lookup of a token, is done
            assert client.post("/add", json=BODY).status_code == 201
        trace.on = True
        assert client.post("/add", json=BODY).status_code == 201
        assert not trace.on, "nothing was committed"
    listed = "\n".join(sorted(trace.files))
    assert "submission/command.py" in trace.files, "nothing was traced"
    assert len(trace.files) <= MAX_FILES, f"{len(trace.files)} files:\n{listed}"
    shown = "\n".join(reversed(trace.deepest))
    assert len(trace.deepest) <= MAX_FRAMES, f"{len(trace.deepest)} frames:\n{shown}"
