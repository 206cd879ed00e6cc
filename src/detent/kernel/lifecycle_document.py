"""Reads a lifecycle of tasks from plain values: those of a TOML file, of JSON, or of Python.

Reading refuses unknown fields and wrong types and names the field. Whether the lifecycle makes
sense is for `lifecycle_lint` to say. Pure: values in, a lifecycle out.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from detent.errors import Invalid
from detent.kernel import document_fields as fields
from detent.kernel.budget import budget_from
from detent.kernel.lifecycle import Row
from detent.kernel.retention import Ending
from detent.kernel.retry import policy_from
from detent.kernel.state_shapes import Look
from detent.kernel.task_lifecycle import (
    Counterpart,
    EntryPoint,
    Phase,
    Predicate,
    Rounds,
    Rule,
    TaskLifecycle,
    TaskState,
    Timer,
    Trigger,
)

MAX_STATES, MAX_ROWS, MAX_RULES, MAX_TIMERS = 50, 500, 100, 50
MAX_VERSION, MAX_ROUNDS = 1_000_000, 1_000
LONGEST_NAME, LONGEST_TEXT = 60, 500
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
#: Who may send an event. `person:NAME` is one person; people send events by command or dashboard.
SENDERS = ("person", "gateway", "worker", "engine", "keeper", "system")
UNITS_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
LONGEST_TIMER_US = 366 * UNITS_US["d"]

DOCUMENT = (
    *("name", "version", "title", "initial", "states", "rows", "rules", "timers", "rounds"),
    *("queues", "retry", "max_budget_usd", "default_for", "counterpart", "migrate"),
)
STATE = ("meaning", "phase", "terminal", "waits_for_person", "retention", "column", "look")
ROW = ("from", "event", "to", "who", "why", "extension")
RULE = ("when", "in", "if", "then")
TIMER = ("in", "after", "event")


def read(given: object) -> TaskLifecycle:
    """Return the lifecycle that a document declares."""
    document = fields.table(given, "the document")
    fields.table(document, "", DOCUMENT)
    rows, row_places = _rows(document)
    states = _states(document)
    return TaskLifecycle(
        name=_name(_required(document, "name"), "name"),
        title=_text(document.get("title", document.get("name")), "title"),
        states=states,
        initial=_name(_required(document, "initial"), "initial"),
        terminal=tuple(
            name for name, row in _tables(document, "states").items() if row.get("terminal")
        ),
        rows=rows,
        row_places=row_places,
        version=fields.whole_number(document.get("version", 1), "version", 1, MAX_VERSION),
        rules=tuple(_rule(row, place) for place, row in _list(document, "rules", MAX_RULES)),
        timers=tuple(_timer(row, place) for place, row in _list(document, "timers", MAX_TIMERS)),
        rounds=_rounds(document.get("rounds", {})),
        queues=_names(document.get("queues", ["task_queued"]), "queues"),
        policy=policy_from(document.get("retry", {})),
        budget=_budget(document),
        default_for=_choices(document.get("default_for", []), "default_for", EntryPoint),
        counterpart=_counterpart(document.get("counterpart")),
        migrations=_name_pairs(document.get("migrate", {}), "migrate"),
    )


# ---- states ----------------------------------------------------------------------------------


def _states(document: Mapping[str, object]) -> tuple[TaskState, ...]:
    tables = _tables(document, "states")
    if len(tables) > MAX_STATES:
        raise Invalid(f"states has {len(tables)} states; at most {MAX_STATES}.", field="states")
    return tuple(_state(name, row, f"states.{name}") for name, row in tables.items())


def _state(name: str, given: Mapping[str, object], where: str) -> TaskState:
    row = fields.table(given, where, STATE)
    phase = fields.choice(row.get("phase", Phase.IDLE), f"{where}.phase", Phase)
    ending = None
    if "retention" in row:
        ending = fields.choice(row["retention"], f"{where}.retention", Ending)
    _flag(row, "terminal", where)
    waits = _flag(row, "waits_for_person", where)
    look = fields.choice(row.get("look", _usual(phase, ending, waits)), f"{where}.look", Look)
    return TaskState(
        name=_name(name, where),
        meaning=_text(row.get("meaning"), f"{where}.meaning"),
        look=look,
        phase=phase,
        ending=ending,
        waits_for_person=waits,
        column=_text(row.get("column", name), f"{where}.column"),
    )


def _usual(phase: Phase, ending: Ending | None, waits_for_person: bool) -> Look:
    """How a state is shown unless the document says otherwise."""
    if ending is not None:
        return ENDED_LOOKS[ending]
    if waits_for_person or phase is Phase.BLOCKED:
        return Look.ATTENTION
    return Look.ACTIVE if phase is Phase.WORKING else Look.WAITING


ENDED_LOOKS: Mapping[Ending, Look] = {
    Ending.DONE: Look.GOOD,
    Ending.FAILED: Look.BAD,
    Ending.CANCELLED: Look.ENDED,
}


# ---- rows, rules, timers ---------------------------------------------------------------------


def _rows(document: Mapping[str, object]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the rows, one for each source, and for each of them its place in the document."""
    listed = _list(document, "rows", MAX_ROWS)
    found = [
        (row, place)
        for place, given in listed
        for row in _row(fields.table(given, place, ROW), place)
    ]
    if len(found) > MAX_ROWS:
        raise Invalid(f"rows has {len(found)} rows; at most {MAX_ROWS}.", field="rows")
    return tuple(row for row, _ in found), tuple(place for _, place in found)


def _row(row: Mapping[str, object], where: str) -> list[Row]:
    sources: tuple[str | None, ...] = (None,)
    if "from" in row:
        sources = _one_or_more(row["from"], f"{where}.from")
    event = _name(_required(row, "event", where), f"{where}.event")
    target = _name(_required(row, "to", where), f"{where}.to")
    who = ", ".join(_senders(_required(row, "who", where), f"{where}.who"))
    why = _text(row.get("why"), f"{where}.why")
    extension = _flag(row, "extension", where)
    return [Row(source, event, target, who, why, extension) for source in sources]


def _senders(given: object, where: str) -> tuple[str, ...]:
    found = fields.texts([given] if isinstance(given, str) else given, where, LONGEST_TEXT)
    for each in found:
        if each not in SENDERS and not each.startswith("person:"):
            raise fields.wrong(where, f"one of {', '.join(SENDERS)} or person:NAME", each, SENDERS)
    return found


def _rule(given: object, where: str) -> Rule:
    row = fields.table(given, where, RULE)
    return Rule(
        when=fields.choice(_required(row, "when", where), f"{where}.when", Trigger),
        then=_names(_required(row, "then", where), f"{where}.then"),
        given=_choices(row.get("if", []), f"{where}.if", Predicate),
        states=_one_or_more(row.get("in", []), f"{where}.in"),
    )


def _timer(given: object, where: str) -> Timer:
    row = fields.table(given, where, TIMER)
    return Timer(
        state=_name(_required(row, "in", where), f"{where}.in"),
        after_us=_duration(_required(row, "after", where), f"{where}.after"),
        event=_name(_required(row, "event", where), f"{where}.event"),
    )


def _duration(given: object, where: str) -> int:
    found = re.fullmatch(r"(\d{1,6})\s*([smhd])", given) if isinstance(given, str) else None
    amount = 0 if found is None else int(found[1]) * UNITS_US[found[2]]
    if not 0 < amount <= LONGEST_TIMER_US:
        raise fields.wrong(where, "a time such as 30s, 15m, 12h or 3d, at most 366d", given)
    return amount


def _rounds(given: object) -> Rounds:
    row = fields.table(given, "rounds", ("events", "limit"))
    limit = row.get("limit")
    if limit is not None:
        limit = fields.whole_number(limit, "rounds.limit", 1, MAX_ROUNDS)
    return Rounds(_names(row.get("events", []), "rounds.events"), limit)


def _counterpart(given: object) -> Counterpart | None:
    if given is None:
        return None
    row = fields.table(given, "counterpart", ("lifecycle", "states", "failed"))
    return Counterpart(
        _name(_required(row, "lifecycle", "counterpart"), "counterpart.lifecycle"),
        _name_pairs(row.get("states", {}), "counterpart.states"),
        _name_pairs(row.get("failed", {}), "counterpart.failed"),
    )


def _budget(document: Mapping[str, object]) -> int | None:
    given = document.get("max_budget_usd")
    return None if given is None else budget_from(given)


# ---- values ----------------------------------------------------------------------------------

Choice = TypeVar("Choice", Predicate, EntryPoint)


def _required(row: Mapping[str, object], key: str, where: str = "") -> object:
    if key not in row:
        field = f"{where}.{key}" if where else key
        raise Invalid(f"{field} is missing.", field=field)
    return row[key]


def _name(given: object, where: str) -> str:
    fits = isinstance(given, str) and len(given) <= LONGEST_NAME and NAME.fullmatch(given)
    if not fits:
        raise fields.wrong(where, f"a snake_case name of at most {LONGEST_NAME} characters", given)
    return str(given)


def _names(given: object, where: str) -> tuple[str, ...]:
    return tuple(_name(each, where) for each in fields.texts(given, where, LONGEST_NAME))


def _one_or_more(given: object, where: str) -> tuple[str, ...]:
    return _names([given] if isinstance(given, str) else given, where)


def _name_pairs(given: object, where: str) -> Mapping[str, str]:
    pairs = fields.table(given, where)
    return {_name(key, where): _name(pairs[key], f"{where}.{key}") for key in pairs}


def _choices(given: object, where: str, choices: type[Choice]) -> tuple[Choice, ...]:
    return tuple(fields.choice(each, where, choices) for each in _names(given, where))


def _text(given: object, where: str) -> str:
    return fields.text(given, where, LONGEST_TEXT)


def _flag(row: Mapping[str, object], key: str, where: str) -> bool:
    return fields.flag(row.get(key, False), f"{where}.{key}")


def _tables(document: Mapping[str, object], key: str) -> Mapping[str, Mapping[str, object]]:
    named = fields.table(_required(document, key), key)
    return {name: fields.table(row, f"{key}.{name}") for name, row in named.items()}


def _list(document: Mapping[str, object], key: str, most: int) -> list[tuple[str, object]]:
    """Return the entries of a list, each with its place."""
    given = document.get(key, [])
    if not isinstance(given, list | tuple) or len(given) > most:
        raise fields.wrong(key, f"a list of at most {most} entries", given)
    return [(f"{key}[{index}]", each) for index, each in enumerate(given)]
