"""Numbered migrations: lists them, and compares them with those that a database has.

A database package applies them under its own lock and records number, name, digest and time in
`schema_migrations`. Reads package files only.
"""

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from importlib import resources
from typing import NamedTuple

from detent.errors import Misconfigured

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    """One file `0001_name.sql`. It never changes after its release: the digest is checked."""

    number: int
    name: str
    text: str
    digest: str


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
    """The migrations that a database needs; refuses a database that is newer or differs."""
    count = 0
    for row in sorted(applied):
        if row.number > len(known):
            raise Misconfigured(
                f"{where} has schema {row.number} ({row.name}), newer than schema {len(known)} of "
                "this version of detent.",
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
