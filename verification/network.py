"""Machines that are network namespaces: made for one run, joined by a bridge, removed at the end.

Needs root and `ip` of iproute2. Nothing is changed in the namespace of the caller: the bridge lies
in the namespace of one of the machines, and the others reach it over a pair of virtual interfaces
each.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

PREFIX = "10.77.0."
DATABASE = "db"


class Unable(Exception):
    """This cannot be measured here; the text says what is missing."""


class Machine(NamedTuple):
    """A namespace with an address of its own."""

    name: str
    namespace: str
    address: str

    #: The machine with the bridge, and the interface of this machine on it; none of its own.
    centre: str = ""
    interface: str = ""

    def command(self, arguments: Sequence[str]) -> list[str]:
        """What runs a program there."""
        return ["ip", "netns", "exec", self.namespace, *arguments]

    def connect(self, *, up: bool) -> None:
        """Cut the machine off from all others, or connect it again."""
        _ip("-n", self.centre, "link", "set", self.interface, "up" if up else "down")


@contextmanager
def network(names: Sequence[str], centre: str = DATABASE) -> Iterator[dict[str, Machine]]:
    """The machine with the bridge and others by name, which reach each other and nothing else."""
    if os.geteuid() != 0:
        raise Unable("network namespaces are made by root: run it as root")
    if shutil.which("ip") is None:
        raise Unable("there is no `ip`: install Debian's iproute2")
    with ExitStack() as made:
        prefix = f"detent-{os.getpid()}"
        machines = {
            name: Machine(
                name,
                f"{prefix}-{name}",
                f"{PREFIX}{number}",
                f"{prefix}-{centre}",
                "" if name == centre else f"to-{name}",
            )
            for number, name in enumerate((centre, *names), 1)
        }
        for machine in machines.values():
            _ip("netns", "add", machine.namespace)
            made.callback(_ip, "netns", "delete", machine.namespace)
            _ip("-n", machine.namespace, "link", "set", "lo", "up")
        _bridge(*machines.values())
        yield machines


def _bridge(centre: Machine, *others: Machine) -> None:
    inside = ("-n", centre.namespace)
    _ip(*inside, "link", "add", "bridge", "type", "bridge")
    _ip(*inside, "address", "add", f"{centre.address}/24", "dev", "bridge")
    _ip(*inside, "link", "set", "bridge", "up")
    for other in others:
        end = other.interface
        _ip(*inside, "link", "add", end, "type", "veth", "peer", "eth0", "netns", other.namespace)
        _ip(*inside, "link", "set", end, "master", "bridge", "up")
        _ip("-n", other.namespace, "address", "add", f"{other.address}/24", "dev", "eth0")
        _ip("-n", other.namespace, "link", "set", "eth0", "up")


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
