"""Numbered migrations: lists them, and compares them with those that a database has.

A database package applies them under its own lock and records number, name, digest and time in
`schema_migrations`. Reads package files only.

The name of a migration says which programs can use a database that has it. After one that begins
with `expand_`, older programs still work: it only adds. After any other one, they do not. A start
applies all migrations except those that begin with `contract_`: `detent db upgrade --finish`
applies them when no older program runs.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib import resources
from itertools import takewhile
from typing import NamedTuple

from detent.errors import Misconfigured

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")
EXPAND, CONTRACT = "expand_", "contract_"
#: The migration that removes the tables of layout 1. The log is converted before.
LAYOUT = 10


class Migration(NamedTuple):
    """One file `0001_name.sql`. It never changes after its release: the digest is checked."""

    number: int
    name: str
    text: str
    digest: str

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"

    @property
    def contracts(self) -> bool:
        """Whether it removes what older programs use."""
        return self.name.startswith(CONTRACT)


class Applied(NamedTuple):
    """A row of `schema_migrations`."""

    number: int
    name: str
    digest: str


def migrations(package: str) -> tuple[Migration, ...]:
    """The migrations of a database package, numbered from 1 without a gap."""
    found = []
    for file in resources.files(package).iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            text = file.read_text(encoding="utf-8")
            digest = sha256(text.encode()).hexdigest()
            found.append(Migration(int(match[1]), match[2], text, digest))
    found.sort()
    if [each.number for each in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"{package}: migrations are not numbered 1, 2, 3, …")
    return tuple(found)


def pending(
    known: Sequence[Migration], applied: Iterable[Applied], where: str
) -> Sequence[Migration]:
    """The migrations that a database needs; refuses a database that this program cannot use."""
    count = 0
    for row in sorted(applied):
        if row.number > len(known):
            if row.name.startswith(EXPAND):
                continue
            raise Misconfigured(
                f"{where} has schema {row.number} ({row.name}), newer than schema {len(known)} of "
                "this version of detent, which cannot use it.",
                setting="store",
                hint="Upgrade detent, or restore a backup that this version made.",
            )
        if row.digest != known[row.number - 1].digest:
            raise Misconfigured(
                f"Migration {row.number:04} ({row.name}) of {where} differs from the one in this "
                "version of detent.",
                setting="store",
                hint="Use the release of detent that created the database, or restore a backup.",
            )
        count = row.number
    return known[count:]


def needed(waiting: Sequence[Migration], where: str, *, empty: bool) -> Sequence[Migration]:
    """The pending migrations that a start applies: all for an empty database.

    The others end an upgrade. A later migration cannot be applied before them.
    """
    if empty:
        return waiting
    found = list(takewhile(lambda each: not each.contracts, waiting))
    late = [each for each in waiting[len(found) :] if not each.contracts]
    if late:
        last = waiting[len(found)]
        raise Misconfigured(
            f"{where} needs schema {late[0].number}, but the upgrade to schema {last.number} "
            f"({last.name}) was not finished.",
            setting="store",
            hint="When no process of an older version runs, run `detent db upgrade --finish`.",
        )
    return found
