"""A lifecycle as plain JSON values, and back: the shape of every export and of a file to check.

Reading refuses what has the wrong type and names the place; whether the table makes sense is for
`flaws()` to say. Pure: values in, values out.
"""

from dataclasses import asdict

from detent.errors import Invalid
from detent.kernel.lifecycle import Lifecycle, Row, State
from detent.kernel.state_shapes import Look
from detent.kernel.task_lifecycle import TaskLifecycle

Json = dict[str, object]


def export(lifecycle: Lifecycle) -> Json:
    """Everything a lifecycle says, as JSON values; a creation row has the source null."""
    return _table(lifecycle) | _of_tasks(lifecycle)


def _table(lifecycle: Lifecycle) -> Json:
    return {
        "id": lifecycle.id,
        "name": lifecycle.name,
        "title": lifecycle.title,
        "states": list(lifecycle.state_names),
        "initial": lifecycle.initial,
        "terminal": list(lifecycle.terminal),
        "rows": [asdict(row) for row in lifecycle.rows],
        "meanings": {state.name: state.meaning for state in lifecycle.states},
        "looks": {state.name: state.look.value for state in lifecycle.states},
    }


def _of_tasks(lifecycle: Lifecycle) -> Json:
    """What only lifecycles of tasks have; the fields of another one are empty."""
    if not isinstance(lifecycle, TaskLifecycle):
        return {**_NOT_OF_TASKS, "kind": lifecycle.name}
    states = lifecycle.states
    return {
        "kind": "task",
        "version": lifecycle.version,
        "shipped": lifecycle.shipped,
        "phases": {state.name: state.phase.value for state in states},
        "endings": {state.name: state.ending.value for state in states if state.ending},
        "columns": {state.name: state.column for state in states if state.column},
        "waits_for_person": [state.name for state in states if state.waits_for_person],
        "queues": list(lifecycle.queues),
        "rules": [
            {
                "when": rule.when.value,
                "states": list(rule.states),
                "given": [each.value for each in rule.given],
                "then": list(rule.then),
            }
            for rule in lifecycle.rules
        ],
        "timers": [
            {"state": each.state, "after_s": each.after_us // 1_000_000, "event": each.event}
            for each in lifecycle.timers
        ],
        "rounds": {"events": list(lifecycle.rounds.events), "limit": lifecycle.rounds.limit},
        "default_for": [each.value for each in lifecycle.default_for],
    }


_NOT_OF_TASKS: Json = {
    "version": 1,
    "shipped": True,
    **{name: {} for name in ("phases", "endings", "columns")},
    **{name: [] for name in ("waits_for_person", "queues", "rules", "timers", "default_for")},
    "rounds": {"events": [], "limit": None},
}


def read(value: object, place: str = "lifecycle") -> Lifecycle:
    """A lifecycle from JSON values in the shape of `export`; `title` and `looks` may be missing."""
    data = _object(value, place)
    name = _text(data, "name", place)
    meanings = _object(data.get("meanings", {}), f"{place}.meanings")
    looks = _object(data.get("looks", {}), f"{place}.looks")
    states = tuple(
        State(
            state,
            _text(meanings, state, f"{place}.meanings", default=""),
            _look(looks.get(state, Look.WAITING), f"{place}.looks.{state}"),
        )
        for state in _texts(data, "states", place)
    )
    return Lifecycle(
        name=name,
        title=_text(data, "title", place, default=name),
        states=states,
        initial=_text(data, "initial", place),
        terminal=_texts(data, "terminal", place),
        rows=tuple(
            _row(row, f"{place}.rows[{index}]")
            for index, row in enumerate(_list(data, "rows", place))
        ),
    )


def _row(value: object, place: str) -> Row:
    data = _object(value, place)
    return Row(
        source=None if _get(data, "source", place) is None else _text(data, "source", place),
        event=_text(data, "event", place),
        target=_text(data, "target", place),
        who=_text(data, "who", place, default=""),
        why=_text(data, "why", place, default=""),
        extension=_flag(data, "extension", place),
        reopens=_flag(data, "reopens", place),
    )


def _look(value: object, place: str) -> Look:
    for look in Look:
        if value == look.value:
            return look
    raise _wrong(place, value, "one of " + ", ".join(Look))


def _get(data: Json, key: str, place: str) -> object:
    if key not in data:
        raise Invalid(f"{place}.{key} is missing.", field=f"{place}.{key}")
    return data[key]


def _text(data: Json, key: str, place: str, default: str | None = None) -> str:
    value = _get(data, key, place) if default is None else data.get(key, default)
    if isinstance(value, str):
        return value
    raise _wrong(f"{place}.{key}", value, "a string")


def _flag(data: Json, key: str, place: str) -> bool:
    value = data.get(key, False)
    if isinstance(value, bool):
        return value
    raise _wrong(f"{place}.{key}", value, "true or false")


def _list(data: Json, key: str, place: str) -> list[object]:
    value = _get(data, key, place)
    if isinstance(value, list):
        return value
    raise _wrong(f"{place}.{key}", value, "a list")


def _texts(data: Json, key: str, place: str) -> tuple[str, ...]:
    values = _list(data, key, place)
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise _wrong(f"{place}.{key}[{index}]", value, "a string")
    return tuple(str(value) for value in values)


def _object(value: object, place: str) -> Json:
    if isinstance(value, dict):
        return value
    raise _wrong(place, value, "an object")


def _wrong(place: str, given: object, allowed: str) -> Invalid:
    shown = repr(given)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return Invalid(
        f"{place} must be {allowed}, not {shown}.", field=place, given=shown, allowed=[allowed]
    )
