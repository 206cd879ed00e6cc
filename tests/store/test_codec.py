"""Events and values as JSON text, and entities as rows: what goes in comes out."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.errors import Broken, Invalid
from detent.kernel import entities
from detent.kernel.events import EVENTS, Event, JobCompleted, JobParked, Record, TaskMoved
from detent.store import codec
from detent.store.codec import event_digest, event_rows, from_json, read_event, to_json
from detent.store.rows import CODED, columns, reader, writer
from detent.store.types import LoggedEvent, NewEvent

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
numbers = st.integers(-(2**63), 2**63 - 1)


def field_values(hint: Any) -> st.SearchStrategy[Any]:
    """Values of a field by its type, as the kernel makes them."""
    known: dict[Any, st.SearchStrategy[Any]] = {
        str: texts,
        int: numbers,
        bool: st.booleans(),
        float: st.floats(allow_nan=False, allow_infinity=False),
        Any: values,
        Mapping[str, int]: st.dictionaries(texts, numbers, max_size=3),
        Mapping[str, Any]: st.dictionaries(texts, values, max_size=3),
        Mapping[str, Mapping[str, Any]]: st.dictionaries(
            texts, st.dictionaries(texts, values, max_size=3), max_size=3
        ),
        tuple[str, ...]: st.lists(texts, max_size=3).map(tuple),
    }
    if hint in known:
        return known[hint]
    return st.none() | known[next(each for each in hint.__args__ if each is not type(None))]


def made(kind: type[Any]) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind)
    names = getattr(kind, "_fields", None) or [field.name for field in fields(kind)]
    return st.builds(kind, **{name: field_values(hints[name]) for name in names})


# ---- events ----------------------------------------------------------------------------------


def logged(event: Event, at: int = 7) -> LoggedEvent:
    entry = NewEvent("stream", 1, "p", Record("stream", "subject", event, at, "person:ann"))
    return LoggedEvent._make((1, *event_rows([entry])[0], None))


@pytest.mark.parametrize("name", EVENTS)
@settings(max_examples=15)
@given(data=st.data())
def test_every_event_comes_back_as_it_went(name: str, data: st.DataObject) -> None:
    event = data.draw(made(EVENTS[name]))
    if isinstance(event, TaskMoved):  # its name is one that a document declares
        event = replace(event, name=data.draw(st.sampled_from(["task_moved", "task_approved"])))
    row = logged(event)
    assert read_event(row.name, row.schema, row.data) == event
    assert (row.stream, row.version, row.subject, row.actor) == (
        "stream",
        1,
        "subject",
        "person:ann",
    )


def test_an_older_event_is_brought_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(document: dict[str, Any]) -> dict[str, Any]:
        return {"reason": document["why"]}

    def shout(document: dict[str, Any]) -> dict[str, Any]:
        return {"reason": document["reason"].upper()}

    monkeypatch.setattr(JobParked, "version", 3)
    upcasts = {("job_parked", 1): rename, ("job_parked", 2): shout}
    monkeypatch.setattr(codec, "UPCASTS", upcasts)
    assert read_event("job_parked", 1, '{"why": "rain"}') == JobParked("RAIN")
    assert read_event("job_parked", 2, '{"reason": "rain"}') == JobParked("RAIN")
    assert read_event("job_parked", 3, '{"reason": "rain"}') == JobParked("rain")


@pytest.mark.parametrize(("name", "schema"), [("job_danced", 1), ("job_parked", 2)])
def test_an_event_of_the_future_is_not_guessed_at(name: str, schema: int) -> None:
    with pytest.raises(Broken, match="which is unknown here") as caught:
        read_event(name, schema, "{}")
    assert "Upgrade detent" in caught.value.hint


def test_the_digest_covers_all_but_the_position_and_outlives_the_data() -> None:
    event = logged(JobCompleted("done"))
    digest = event_digest(event)
    assert event_digest(event._replace(position=99)) == digest
    assert event_digest(event._replace(data="", digest=digest)) == digest
    changes: list[dict[str, Any]] = [{name: None} for name in LoggedEvent._fields[1:10]]
    others = [event._replace(**change) for change in changes]
    assert digest not in {event_digest(other) for other in others}


# ---- values ----------------------------------------------------------------------------------


@given(values)
def test_a_value_comes_back_as_it_went(value: Any) -> None:
    assert from_json(to_json(value)) == value


def bottomless() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


@pytest.mark.parametrize(
    "value", [object(), "half \ud800", bottomless()], ids=["type", "half", "deep"]
)
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(Invalid, match="cannot be encoded as JSON"):
        to_json(value)
    with pytest.raises(Invalid, match="cannot be encoded as JSON"):
        logged(JobCompleted(value))


# ---- rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("entity", CODED)
@settings(max_examples=40)
@given(data=st.data())
def test_every_entity_comes_back_as_it_went(entity: type[Any], data: st.DataObject) -> None:
    given_one = data.draw(made(entity))
    row = writer(entity, columns(entity))(given_one)
    assert all(isinstance(value, str | int | float | None) for value in row)
    from_sqlite = tuple(int(value) if isinstance(value, bool) else value for value in row)
    for stored in (row, from_sqlite):
        read = reader(entity, (*columns(entity), "version"))((*stored, 3))
        assert read == given_one
        assert [type(value) for value in read] == [type(value) for value in given_one]


def test_a_blank_entity_has_blank_columns() -> None:
    job = entities.Job("j", "p", "queued", 1, "dig", "P2", 1, "j")
    row = dict(
        zip(columns(entities.Job), writer(entities.Job, columns(entities.Job))(job), strict=True)
    )
    assert [row[name] for name in ("failures", "options", "result")] == ["{}", "{}", "null"]


def test_a_writer_takes_what_a_statement_names() -> None:
    run = entities.Run("r", "j", "queued", 1, 1, "w", 1)
    assert writer(entities.Run, ["state", "id"])(run) == ("queued", "r")
    assert writer(entities.Run, ["id"])(run) == ("r",)


def test_a_statement_in_another_order_is_found_immediately() -> None:
    with pytest.raises(ValueError, match="coded fields must come last"):
        writer(entities.Job, ["options", "id"])
    with pytest.raises(ValueError, match="Job: select"):
        reader(entities.Job, sorted(entities.Job._fields))
