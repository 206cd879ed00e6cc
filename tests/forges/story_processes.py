"""A worker and a keeper as processes that tests kill: `python -m tests.forges.story_processes DIR`.

The program imports everything once. For each line that it reads (`worker` or `keeper`) it forks a
process of that kind and prints its id, so that a process that was killed is replaced quickly.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from githubkit_schemas.latest import models

from detent.errors import DetentError
from detent.integrations.forges.forge import (
    Forge,
    LineThread,
    NewRequest,
    Note,
    PullRequest,
    Status,
)
from detent.integrations.forges.forge_config import connect_github, connect_gitlab
from detent.settings import Settings
from detent.worker.worker import Worker
from tests.agents.scene import Scene
from tests.forges.case_world import KEEPERS
from tests.worker.waiting import installation

LEASE_MS = 3_600_000
SETTINGS = "settings.json"
CONNECT: dict[str, Callable[[Settings], Forge]] = {
    "github": connect_github,
    "gitlab": connect_gitlab,
}


class Processes:
    """The processes of a test."""

    def __init__(
        self, directory: Path, forge: str, settings: dict[str, Any], script: dict[str, Any]
    ) -> None:
        given = {"forge": forge, "settings": settings, "script": script}
        (directory / SETTINGS).write_text(json.dumps(given))
        command = [sys.executable, "-m", "tests.forges.story_processes", str(directory)]
        self._parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.ids: dict[str, int] = {}

    def start(self, kind: str) -> None:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{kind}\n")
        self._parent.stdin.flush()
        self.ids[kind] = int(self._parent.stdout.readline())

    def kill(self, kind: str) -> None:
        os.kill(self.ids[kind], signal.SIGKILL)

    def is_alive(self, kind: str) -> bool:
        try:
            os.kill(self.ids[kind], 0)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> None:
        for kind in self.ids:
            if self.is_alive(kind):
                self.kill(kind)
        with self._parent as parent:  # closes its pipes and waits
            parent.kill()


def run(directory: Path, kind: str) -> None:
    given = json.loads((directory / SETTINGS).read_text())
    with installation(
        directory / "data", lease_ms=LEASE_MS, audited=False, **given["settings"]
    ) as core:
        if kind == "keeper":
            KEEPERS[given["forge"]](core, "keeper").start()
        else:
            scene = Scene(core, directory)
            scene.script(*given["script"]["runs"], repos=[given["script"]["repo"]])
            scene.intent(workspace="worktree", prompt="Resolve: {payload}")
            Worker(core, scene.app.bind(core), name="worker", concurrency=2).start()
        signal.pause()


def _import_models(directory: Path) -> None:
    """Call what a keeper calls, for a repository that does not exist: a library imports the models
    of a call when it is made."""
    given = json.loads((directory / SETTINGS).read_text())
    forge = CONNECT[given["forge"]](Settings(**given["settings"]))
    thread = LineThread("T", False, "f", "after", 1, 1, (Note("1", "a", True, "x"),))
    request = PullRequest("no/where", 1, "", "open", "b", "main", "0" * 40)
    calls: list[Callable[[], Any]] = [
        forge.account,
        lambda: forge.issues("no/where", None),
        lambda: forge.issue("no/where", 1),
        lambda: forge.request("no/where", "b"),
        lambda: forge.open_request("no/where", NewRequest("t", "b", "b", "main")),
        lambda: forge.reply(request, thread, "x"),
        lambda: forge.set_status("no/where", "0" * 40, Status("passed", "x")),
        lambda: forge.status("no/where", "0" * 40),
        lambda: forge.merge(request, "merge"),
    ]
    for call in calls:
        with suppress(DetentError):
            call()
    assert models.PullRequest is not None
    assert models.PullRequestReview is not None
    forge.close()


def main(directory: Path) -> None:
    _import_models(directory)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.stdin.close()
            run(directory, line.strip())
            return
        print(child, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
