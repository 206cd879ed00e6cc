"""Checks migrations: a name that begins with `expand_` promises that older programs still work.

Such a migration only adds: tables, views and functions, columns with a constant default, and
indexes, triggers and rows of tables that it creates itself. An index on an older table would block
writers while it is built.
"""

import re
from collections.abc import Iterator, Sequence

from detent.store.migration_files import CONTRACT, EXPAND, Migration

#: The last migration of 0.3.0. Later ones are named by what older programs can do with them.
UNMARKED = 16

_COMMENT = re.compile(r"--[^\n]*")
_BODY = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)
_CREATE_TABLE = re.compile(r"CREATE TABLE (\w+)")
_NEW = re.compile(r"CREATE (TABLE|VIEW|FUNCTION) \w+")
_OF_TABLE = re.compile(
    r"(?:CREATE (?:UNIQUE )?INDEX \w+ ON|CREATE TRIGGER \w+ .*? ON|INSERT INTO) (\w+)"
)
_COLUMN = re.compile(
    r"ALTER TABLE \w+ ADD COLUMN \w+ \w+(?: COLLATE \"C\")?"
    r"(?:(?: NOT NULL)? DEFAULT (?:'[^']*'|-?\d+|true|false)(?: NOT NULL)?)?"
)


def flaws(known: Sequence[Migration]) -> Iterator[str]:
    """What is wrong with the names and statements of the migrations of one store."""
    for migration in known:
        if migration.number <= UNMARKED:
            continue
        if not migration.name.startswith((EXPAND, CONTRACT)):
            yield (
                f"{migration}: the name must begin with {EXPAND} if older programs can use the "
                f"database after it, otherwise with {CONTRACT}"
            )
        elif not migration.contracts:
            yield from (f"{migration}: not an addition: {each}" for each in changes(migration.text))


def changes(text: str) -> Iterator[str]:
    """The statements that are more than an addition."""
    plain = _BODY.sub("''", _COMMENT.sub("", text))
    created = set(_CREATE_TABLE.findall(plain))
    for statement in plain.split(";"):
        words = " ".join(statement.split())
        of_table = _OF_TABLE.match(words)
        is_addition = (
            _NEW.match(words) or _COLUMN.fullmatch(words) or (of_table and of_table[1] in created)
        )
        if words and not is_addition:
            yield words
