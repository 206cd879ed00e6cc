"""Opens a file in the editor of the person: $VISUAL, $EDITOR, or one that is installed."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from detent.cli.pager import interrupts_ignored
from detent.errors import Misconfigured, Refused

USUAL = ("vi", "nano")


def edit(path: Path) -> None:
    """Open a file in the editor and wait until it is closed. Refused if the editor fails."""
    command = _command()
    try:
        with interrupts_ignored():
            status = subprocess.call([*command, str(path)])
    except OSError as error:
        raise Misconfigured(
            f"The editor {command[0]!r} could not be started: {error.strerror}.",
            setting="EDITOR",
            hint="Set EDITOR to the command of your editor, for example EDITOR='code --wait'.",
        ) from None
    if status != 0:
        raise Refused(
            f"The editor {command[0]!r} failed with the status {status}.",
            hint=f"No draft was changed. The file is {path}.",
        )


def _command() -> list[str]:
    given = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    installed = next((each for each in USUAL if shutil.which(each)), None)
    found = shlex.split(given) if given else [installed] if installed else []
    if not found:
        raise Misconfigured(
            "There is no editor.",
            setting="EDITOR",
            hint="Set EDITOR to the command of your editor.",
        )
    return found
