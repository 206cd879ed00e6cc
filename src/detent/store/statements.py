"""SQL from `.sql` files: named blocks (`-- name: insert_jobs`) with `:name` parameters.

Values are bound by position, in the order in which the parameters first appear. Rows have the order
of the select list.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from typing import NamedTuple

#: A parameter (group 1), or a text that contains a colon otherwise: a literal, a cast.
PARAMETER = re.compile(r"'(?:[^']|'')*'|::\w+|:([a-z_][a-z0-9_]*)")
_BLOCK = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
#: White space, or a literal (group 1). Statements are shortened, because databases cache by text.
_SPACE = re.compile(r"('(?:[^']|'')*')|\s+")
_SELECT = re.compile(r"\s*SELECT\s+(.*?)\sFROM\s", re.DOTALL)


class Statement(NamedTuple):
    """One SQL statement. `columns` is empty unless it begins with SELECT."""

    name: str
    text: str
    parameters: tuple[str, ...]
    columns: tuple[str, ...]


def load(*packages: str) -> Mapping[str, Statement]:
    """Every statement in the `.sql` files of these packages; a name must be unique."""
    found: dict[str, Statement] = {}
    for package in packages:
        for file in sorted(resources.files(package).iterdir(), key=lambda file: file.name):
            if not file.name.endswith(".sql"):
                continue
            for statement in parse(file.read_text(encoding="utf-8")):
                if statement.name in found:
                    raise ValueError(f"{package}/{file.name}: {statement.name} is defined twice")
                found[statement.name] = statement
    return found


def for_tables(pattern: Statement, tables: Iterable[str]) -> Mapping[str, Statement]:
    """One statement for each table, with its name in place of the word `named`."""
    return {
        table: statement(f"{pattern.name}:{table}", re.sub(r"\bnamed\b", table, pattern.text))
        for table in tables
    }


def parse(text: str) -> Iterator[Statement]:
    """The named blocks of one file."""
    parts = _BLOCK.split(text)
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        bare = _COMMENT.sub("", body).strip().removesuffix(";")
        yield statement(name, _SPACE.sub(lambda match: match[1] or " ", bare))


def statement(name: str, text: str) -> Statement:
    names = (match[1] for match in PARAMETER.finditer(text) if match[1])
    return Statement(name, text, tuple(dict.fromkeys(names)), _columns(text))


def _columns(text: str) -> tuple[str, ...]:
    """The names in a select list: `jobs.id` is id, `count(*) AS running` is running."""
    selected = _SELECT.match(text)
    if selected is None:
        return ()
    return tuple(re.split(r"[\s.]", part.strip())[-1] for part in selected[1].split(","))
