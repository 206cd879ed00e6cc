"""Builds the SQL of lists: one page of a table, or counts by a column.

Names of tables and columns are checked against the known ones; every value is bound.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from detent.errors import Invalid
from detent.kernel.entities import Checkpoint, Job, Run, Step, Task, Wait
from detent.kernel.lifecycles import LIFECYCLES
from detent.store.codec import from_json
from detent.store.rows import CODED, FLAG, TEXTS, Kind, Question, columns, job_of_run
from detent.store.table_names import LISTED, SEARCHED
from detent.store.types import Query, QueueRow

#: Executes a statement with `:name` parameters.
Ask = Callable[[str, Mapping[str, Any]], Iterable[Sequence[Any]]]

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "tasks": (*columns(Task), "version", "title", "payload", "tags"),
    "jobs": (*columns(Job), "version", "payload"),
    "runs": columns(Run),
    "steps": columns(Step),
    "waits": columns(Wait),
    "queue": (*QueueRow._fields, "worker", "fence", "lease_until"),
    "checkpoints": columns(Checkpoint),
    "evidence": ("run_id", "file", "kind", "sha256", "size", "media_type", "at"),
    "questions": Question._fields,
}
FREE = Kind(str, from_json, None)
KINDS: Mapping[str, Mapping[str, Kind]] = {
    **{table: {} for table in COLUMNS},
    "tasks": {**CODED[Task], "payload": FREE, "tags": TEXTS},
    "jobs": {**CODED[Job], "payload": FREE},
    "steps": CODED[Step],
    "waits": CODED[Wait],
    "checkpoints": CODED[Checkpoint],
    "questions": {"detail": CODED[Wait]["detail"]},
}
OPERATORS = ("<", "<=", ">", ">=")
#: By table: the rare states, and the condition of the partial index over them.
RARE: Mapping[str, tuple[frozenset[str], str]] = {
    "jobs": (
        frozenset(LIFECYCLES["job"].state_names) - {"completed"},
        "state <> 'completed'",
    ),
    "runs": (
        frozenset({"failed", "timeout", "cancelled"}),
        "state NOT IN ('queued', 'running', 'succeeded')",
    ),
}
#: Characters with a special meaning in LIKE.
_SPECIAL, _ESCAPED = re.compile(r"[%_~]"), r"~\g<0>"
#: By table without titles: the condition for rows whose task has the text of a search in its title.
#: The database computes these tasks once for a list.
TITLED: Mapping[str, str] = {
    "jobs": "task_id IN (SELECT id FROM tasks WHERE {title})",
    "runs": "job_id IN (SELECT id FROM jobs WHERE task_id IN (SELECT id FROM tasks WHERE {title}))",
}
#: The maximum number of letters beyond ASCII that a search finds in both cases.
MAX_LETTERS = 100
#: Sortable columns that are never null.
NEVER_MISSING = frozenset(
    {"created_at", "state_at", "queued_at", "priority", "rank", "at", "begun_at", "job_id"}
)

#: The tables for a list of tasks with one tag in the order of creation.
TAGGED = "task_tags JOIN tasks ON tasks.id = task_tags.task_id"
HAS_TAG = "tag = :{value}"


def page(ask: Ask, query: Query, contains: str) -> list[dict[str, Any]]:
    """The rows after the cursor in the requested order; null comes before every value."""
    names = _columns(query)
    shown, source, key = names, query.table, LISTED[query.table]
    order = query.order or key
    if "tags" in query.where and order == "created_at":
        source, key, order, contains = TAGGED, "task_id", "at", HAS_TAG
        shown = (*names, "at", "task_id")  # a view of several tables is sorted by shown columns
    elif query.table == "runs" and order == "id":
        order, query = "job_id", query._replace(after=_after_run(query.after))
    condition, values = _condition(query, contains)
    if query.after is not None:
        passed, more = _after(order, key, query)
        condition, values = f"{condition} AND {passed}", {**values, **more}
    text = (
        f"SELECT {', '.join(shown)} FROM {source} WHERE {condition}"
        f" ORDER BY {_order(order, key, query.descending)} LIMIT :limit"
    )
    kinds = KINDS[query.table]
    coded = [(name, _listed(kinds[name])) for name in names if name in kinds]
    found = [
        dict(zip(names, row, strict=False)) for row in ask(text, {**values, "limit": query.limit})
    ]
    for name, read in coded:
        for row in found:
            row[name] = read(row[name])
    return found


def _after_run(after: tuple[Any, str] | None) -> tuple[Any, str] | None:
    """The place of a run in the order of ids: by job first, which begins the id of a run."""
    return None if after is None else (job_of_run(after[1]), after[1])


def count_by(ask: Ask, query: Query, column: str, contains: str) -> dict[Any, int]:
    """The number of matching rows for each value of a column."""
    _columns(query, column)
    kind = KINDS[query.table].get(column)
    if kind is not None and kind is not FLAG:
        raise _unfit(column)
    condition, values = _condition(query, contains)
    text = f"SELECT {column}, count(*) FROM {query.table} WHERE {condition} GROUP BY {column}"
    return {value if kind is None else bool(value): count for value, count in ask(text, values)}


def _listed(kind: Kind) -> Callable[[Any], Any]:
    """The decoder of a column in a list: a tuple is shown as a list."""
    return from_json if kind is TEXTS else kind.read


def _columns(query: Query, *further: str) -> tuple[str, ...]:
    """The table's columns; checks every name in the query against them."""
    _check("table", query.table, COLUMNS)
    names = COLUMNS[query.table]
    for column in (*query.where, *filter(None, (query.order,)), *further):
        _check("column", column, names)
    return names


def _check(field: str, given: str, allowed: Iterable[str]) -> None:
    if given not in allowed:
        raise Invalid(f"There is no {field} {given!r}.", field=field, given=given, allowed=allowed)


def _unfit(column: str) -> Invalid:
    message = f"The column {column} holds JSON values, which cannot be matched or counted."
    return Invalid(message, field="column", given=column)


def _condition(query: Query, contains: str) -> tuple[str, dict[str, Any]]:
    """The SQL condition of the query, and the values to bind."""
    values: dict[str, Any] = {}
    parts = ["TRUE"]
    for column, wanted in query.where.items():
        kind = KINDS[query.table].get(column)
        if kind is TEXTS:
            values[name := f"p{len(values)}"] = wanted
            parts.append(contains.format(column=column, value=name))
        elif kind is not None and kind is not FLAG:
            raise _unfit(column)
        else:
            parts.append(_match(column, wanted, values))
    if query.search:
        parts.append(_search(query, values))
    wanted = query.where.get("id") if query.table == "runs" else None
    if isinstance(wanted, str | list):
        # The id of a run begins with that of its job, which has an index.
        given = [wanted] if isinstance(wanted, str) else wanted
        parts.append(_match("job_id", [job_of_run(each) for each in given], values))
    rare, words = RARE.get(query.table, (frozenset(), ""))
    if rare.issuperset(_states(query) or [""]):
        parts.append(words)
    return " AND ".join(parts), values


def _search(query: Query, values: dict[str, Any]) -> str:
    """The condition that a column contains the text, in any letter case.

    The databases convert only the letters of ASCII, so that other letters of the text are replaced.
    """
    text, lowered = "".join(each.lower() for each in query.search), "{column}"
    values["search"] = f"%{_SPECIAL.sub(_ESCAPED, text)}%"
    for number, letter in enumerate(sorted(filter(_has_upper, set(text)))[:MAX_LETTERS]):
        values[f"upper{number}"], values[f"lower{number}"] = letter.upper(), letter
        lowered = f"replace({lowered}, :upper{number}, :lower{number})"
    like = f"lower({lowered}) LIKE :search ESCAPE '~'"
    searches = [like.format(column=name) for name in SEARCHED[query.table]]
    if query.table in TITLED:
        searches.append(TITLED[query.table].format(title=like.format(column="title")))
    return f"({' OR '.join(searches)})"


def _has_upper(letter: str) -> bool:
    """Whether it is a lower-case letter beyond ASCII with one upper-case letter."""
    upper = letter.upper()
    return not letter.isascii() and upper != letter and len(upper) == 1


def _states(query: Query) -> list[Any]:
    """The states that the query names."""
    wanted = query.where.get("state", [])
    return wanted if isinstance(wanted, list) else [wanted]


def _match(column: str, wanted: Any, values: dict[str, Any]) -> str:
    def bound(value: Any) -> str:
        values[name := f"p{len(values)}"] = value
        return f":{name}"

    if wanted is None:
        return f"{column} IS NULL"
    if isinstance(wanted, list):
        present = [bound(each) for each in wanted if each is not None]
        some = [f"{column} IN ({', '.join(present)})"] if present else []
        none = [f"{column} IS NULL"] if None in wanted else []
        return f"({' OR '.join([*some, *none]) or 'FALSE'})"
    if isinstance(wanted, tuple):
        sign, value = wanted
        _check("operator", sign, OPERATORS)
        return f"{column} {sign} {bound(value)}"
    return f"{column} = {bound(wanted)}"


def _order(order: str, key: str, descending: bool) -> str:
    way = "DESC NULLS LAST" if descending else "ASC NULLS FIRST"
    return ", ".join(f"{column} {way}" for column in dict.fromkeys((order, key)))


def _after(order: str, key: str, query: Query) -> tuple[str, dict[str, Any]]:
    """The condition for the rows after the last one; a null value needs its own cases."""
    value, name = query.after or (None, "")
    sign = "<" if query.descending else ">"
    if order == key:
        return f"{key} {sign} :after_key", {"after_key": name}
    if value is None:
        behind = f"{order} IS NULL AND {key} {sign} :after_key"
        others = "" if query.descending else f" OR {order} IS NOT NULL"
        return f"({behind}{others})", {"after_key": name}
    behind = f"({order}, {key}) {sign} (:after_value, :after_key)"
    if query.descending and order not in NEVER_MISSING:
        behind = f"({behind} OR {order} IS NULL)"
    return behind, {"after_value": value, "after_key": name}
