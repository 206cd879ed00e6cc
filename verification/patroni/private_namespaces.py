"""Runs a program in namespaces of its own, so that nothing of it can outlive it.

The program is root there and has its own network, mounts and processes: when it ends, however it
ends, the kernel ends all processes that it started and removes the networks that it made.
"""

import os
import sys
from collections.abc import Sequence

INSIDE = "DETENT_PRIVATE_NAMESPACES"
#: `ip netns` keeps names below /run, which is private from here on. The shell stays: it is the
#: first process there and collects those that have lost their parent.
PRIVATE_RUN = 'mount -t tmpfs none /run && "$@"; exit $?'


def command(arguments: Sequence[str]) -> list[str]:
    """The command that runs a program there; a user without rights is root inside only."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return [
        *("unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("sh", "-c", PRIVATE_RUN, "sh", *arguments),
    ]


def enter(module: str) -> None:
    """Replace this process by the same module in namespaces of its own, unless it is there."""
    if os.environ.get(INSIDE) != "yes":
        words = command([sys.executable, "-m", module, *sys.argv[1:]])
        os.execvpe(words[0], words, {**os.environ, INSIDE: "yes"})
