"""The Notion pages of tasks, runs and values of the system state. Pure."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from detent import views
from detent.redaction import redact
from detent.store.codec import to_json

Json = dict[str, Any]
Row = Mapping[str, Any]

#: Notion's limits: characters of a text object, text objects of a property, option length.
LONGEST_TEXT = 2_000
MAX_PIECES = 20
LONGEST_OPTION = 100
#: The property by which a page is found.
IDENT = "ID"

# ---- values of properties --------------------------------------------------------------------


def title(value: Any) -> Json:
    return {"title": pieces(str(value or ""), 1)}


def text(value: Any) -> Json:
    return {"rich_text": pieces("" if value is None else str(value), MAX_PIECES)}


def pieces(value: str, most: int) -> list[Json]:
    """Text as Notion's text objects; longer text is truncated."""
    value = redact(value)
    cut = [value[at : at + LONGEST_TEXT] for at in range(0, len(value), LONGEST_TEXT)]
    return [{"type": "text", "text": {"content": each}} for each in cut[:most]]


def option(value: Any) -> Json:
    """A select option. Notion does not allow commas in it."""
    if value in (None, ""):
        return {"select": None}
    return {"select": {"name": str(value).replace(",", ";")[:LONGEST_OPTION]}}


def number(value: Any) -> Json:
    return {"number": value}


def money(value: Any) -> Json:
    return {"number": None if value is None else value / 1_000_000}


def moment(value: Any) -> Json:
    return {"date": None if value is None else {"start": views.utc(value)}}


# ---- the three databases ---------------------------------------------------------------------


class Column(NamedTuple):
    """A property: its type in Notion, its value, and the function that encodes the value."""

    kind: str
    value: Callable[[Row], Any]
    write: Callable[[Any], Json]


class Table(NamedTuple):
    """A database in Notion: its title and its properties by name."""

    name: str
    title: str
    columns: Mapping[str, Column]

    @property
    def schema(self) -> Json:
        return {name: {column.kind: {}} for name, column in self.columns.items()}

    def properties(self, row: Row) -> Json:
        return {name: each.write(each.value(row)) for name, each in self.columns.items()}


def _of(name: str) -> Callable[[Row], Any]:
    return lambda row: row.get(name)


def _question(row: Row) -> Any:
    detail = row.get("blocked_detail") or {}
    return detail.get("text")


def _seconds(row: Row) -> Any:
    if row.get("started_at") is None or row.get("ended_at") is None:
        return None
    return (row["ended_at"] - row["started_at"]) / 1_000_000


TASKS = Table(
    "tasks",
    "detent tasks",
    {
        "Title": Column("title", lambda row: row["title"] or row["id"], title),
        IDENT: Column("rich_text", _of("id"), text),
        "State": Column("select", _of("state"), option),
        "Lifecycle": Column("select", _of("lifecycle"), option),
        "Intent": Column("select", _of("intent"), option),
        "Project": Column("select", _of("project"), option),
        "Priority": Column("select", _of("priority"), option),
        "Blocked by": Column("select", _of("blocked_by"), option),
        "Question": Column("rich_text", _question, text),
        "Spent USD": Column("number", _of("spent"), money),
        "Created": Column("date", _of("created_at"), moment),
        "Changed": Column("date", _of("state_at"), moment),
    },
)
RUNS = Table(
    "runs",
    "detent runs",
    {
        "Run": Column("title", _of("id"), title),
        IDENT: Column("rich_text", _of("id"), text),
        "Task": Column("rich_text", _of("task_id"), text),
        "State": Column("select", _of("state"), option),
        "Step": Column("rich_text", _of("step"), text),
        "Attempt": Column("number", _of("attempt"), number),
        "Worker": Column("rich_text", _of("worker"), text),
        "Exit code": Column("number", _of("exit_code"), number),
        "Error": Column("rich_text", _of("error"), text),
        "Cost USD": Column("number", _of("cost"), money),
        "Started": Column("date", _of("started_at"), moment),
        "Ended": Column("date", _of("ended_at"), moment),
        "Seconds": Column("number", _seconds, number),
    },
)
STATE = Table(
    "state",
    "detent state",
    {
        "Name": Column("title", _of("id"), title),
        IDENT: Column("rich_text", _of("id"), text),
        "Value": Column("rich_text", lambda row: to_json(row["value"]), text),
    },
)
TABLES: Mapping[str, Table] = {table.name: table for table in (TASKS, RUNS, STATE)}


def content(table: Table, row: Row) -> list[Json]:
    """The content of the page: the payload of a task."""
    if table is not TASKS or row.get("payload") is None:
        return []
    code = {"rich_text": pieces(to_json(row["payload"]), MAX_PIECES), "language": "json"}
    return [{"object": "block", "type": "code", "code": code}]


def digest(properties: Json) -> str:
    """The digest of the properties: a page with the same digest is up to date."""
    return hashlib.sha256(to_json(properties).encode()).hexdigest()[:16]


def found_by(ident: str) -> Json:
    """The filter that finds the page of a task, run or value by its id."""
    return {"property": IDENT, "rich_text": {"equals": ident}}


def data_sources(database: Row) -> Sequence[Json]:
    sources: Sequence[Json] = database["data_sources"]
    return sources
