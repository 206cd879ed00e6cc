"""Payloads are checked against the arguments that live workers have registered."""

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest

from detent.app.app import App
from detent.app.arguments import Parameters
from detent.errors import Invalid
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.submission.schema import Checker
from detent.worker.worker import Worker
from tests.worker.waiting import working

# ---- refused payloads ------------------------------------------------------------------------


@dataclass
class Item:
    name: str
    amount: int = 1


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(ge=1)


def orders() -> App:
    app = App()

    @app.intent("order")
    def order(customer: str, items: list[Item], urgent: bool = False) -> None: ...

    @app.intent("send")
    def send(address: Address) -> None: ...

    @app.intent("anything")
    def anything(thing, other):  # type: ignore[no-untyped-def]
        return thing, other

    return app


def submit(core: Core, intent: str, payload: Any) -> str:
    made: str = call("submit_task", core, OWNER, intent=intent, payload=payload)["id"]
    return made


GOOD = {"customer": "c", "items": [{"name": "a"}], "further": "is ignored"}


@pytest.mark.parametrize(
    ("intent", "payload", "field", "given", "allowed"),
    [
        ("order", {**GOOD, "customer": 5}, "payload.customer", 5, "text"),
        ("order", {**GOOD, "items": "a"}, "payload.items", "a", "a list"),
        (
            "order",
            {**GOOD, "items": [{"name": "a"}, {"name": "b", "amount": "2"}]},
            "payload.items[1].amount",
            "2",
            "a whole number",
        ),
        ("order", {**GOOD, "urgent": 1}, "payload.urgent", 1, "true or false"),
        ("order", [1], "payload", [1], "an object"),
        ("send", {"street": "s", "number": 0}, "payload.number", 0, "a number of at least 1"),
    ],
)
def test_a_wrong_value_is_refused_with_the_field(
    core: Core, intent: str, payload: Any, field: str, given: Any, allowed: str
) -> None:
    with working(core, orders()):
        assert submit(core, "order", GOOD)
        with pytest.raises(Invalid) as refused:
            submit(core, intent, payload)
    error = refused.value
    assert (error.code, error.field, error.given) == ("invalid", field, given)
    assert error.allowed == (allowed,)


def test_missing_arguments_are_all_named(core: Core) -> None:
    with working(core, orders()), pytest.raises(Invalid) as refused:
        submit(core, "order", {})
    assert refused.value.details["missing"] == ["payload.customer", "payload.items"]
    assert "payload.customer, payload.items are missing" in str(refused.value)


def test_a_handler_without_annotations_accepts_anything(core: Core) -> None:
    with working(core, orders()):
        for payload in ({}, [1], "text", 5, {"thing": None}):
            assert submit(core, "anything", payload)


def test_a_new_payload_of_a_task_is_checked_too(core: Core) -> None:
    with working(core, orders()):
        task_id = submit(core, "order", GOOD)
        for change in ("edit_task", "retry_task"):
            with pytest.raises(Invalid, match=r"payload\.customer must be text, not 5"):
                call(change, core, OWNER, task_id=task_id, payload={**GOOD, "customer": 5})


def test_arguments_stay_known_when_the_worker_has_stopped(core: Core) -> None:
    with working(core, orders()):
        pass
    with pytest.raises(Invalid, match=r"payload\.customer"):
        submit(core, "order", {})


def test_arguments_of_a_configured_intent_are_checked(core: Core) -> None:
    core.intents = {"order": {"app": "somewhere:app"}}
    with working(core, orders()), pytest.raises(Invalid, match=r"payload\.customer"):
        submit(core, "order", {})


# ---- several versions ------------------------------------------------------------------------


def version(function: Callable[..., Any]) -> App:
    app = App()
    app.intent("bill")(function)
    return app


def old(number: int) -> None: ...


def new(number: str) -> None: ...


def loose(number):  # type: ignore[no-untyped-def]
    return number


def fits(core: Core, number: Any) -> bool:
    try:
        submit(core, "bill", {"number": number})
    except Invalid:
        return False
    return True


def test_a_payload_that_fits_one_live_version_is_accepted(core: Core) -> None:
    first = Worker(core, version(old), name="first")
    first.start()
    try:
        assert (fits(core, 1), fits(core, "1")) == (True, False)
        with working(core, version(new), name="second"):
            assert (fits(core, 1), fits(core, "1"), fits(core, [])) == (True, True, False)
            with working(core, version(loose), name="third"):
                assert fits(core, [])
            assert not fits(core, [])
    finally:
        first.stop(grace_s=0)


def test_a_version_counts_while_its_worker_is_live(core: Core) -> None:
    with working(core, version(old), name="first"):
        pass
    with working(core, version(new), name="second"):
        assert (fits(core, 1), fits(core, "1")) == (False, True)

        def silent(tx: Any) -> bool:
            row = {**tx.rows("workers")["second"], "seen_at": tx.now() - 61_000_000}
            tx.put_rows("workers", {"gone": {**row, "arguments": {}}})
            return True

        core.engine.transaction(silent)
        assert not fits(core, 1)


# ---- the schema and the decoding of the handler agree ----------------------------------------


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, msgspec.Meta(ge=1, le=9)]


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    name: str


class Node(msgspec.Struct):
    below: list["Node"] = []


ANNOTATIONS: tuple[Any, ...] = (
    str,
    int,
    float,
    bool,
    None | int,
    int | str,
    list[int],
    tuple[int, str],
    dict[str, int],
    Literal["a", "b"],
    Literal[1, 2],
    Colour,
    Item,
    Closed,
    Cat | Dog,
    Node,
    Address,
    list[Address],
    dt.datetime,
    dt.date,
    uuid.UUID,
    decimal.Decimal,
    Annotated[str, msgspec.Meta(min_length=2, max_length=3)],
    Annotated[str, msgspec.Meta(pattern="^a+$")],
    Annotated[list[int], msgspec.Meta(max_length=2)],
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 5, -3, 2.5, 3.0, 10**20),
    *("", "a", "b", "aa", "abcd", "red", "5", "2030-01-01", "2030-01-01T10:00:00Z"),
    "0190b8f4-8d2c-7e64-b6d5-1f5d8e5d2a11",
    *([], [1], [1, "a"], [1, 2, 3], ["a"], [None], [{"street": "s", "number": 3}]),
    *({}, {"a": 1}, {"1": "a"}, {"name": "n"}, {"name": "n", "amount": 2}, {"name": 5}),
    *({"size": 3}, {"size": 10}, {"size": 3, "more": 1}, {"type": "Cat", "lives": 9}),
    *({"type": "Dog", "name": "d"}, {"type": "Cow"}, {"below": [{"below": []}]}),
    *({"below": [{"below": 1}]}, {"street": "s", "number": 3}, {"street": "s", "number": 0}),
)


@pytest.mark.parametrize("annotation", ANNOTATIONS, ids=str)
def test_the_schema_accepts_what_the_handler_decodes(annotation: Any) -> None:
    def handler(value) -> None: ...  # type: ignore[no-untyped-def]

    handler.__annotations__["value"] = annotation
    parameters = Parameters(handler)
    schema = msgspec.json.decode(msgspec.json.encode(parameters.schema()))
    payloads = VALUES if parameters.whole else [{"value": value} for value in VALUES]
    decided = []
    for payload in payloads:
        try:
            parameters.decode(payload, None)
            decoded = True
        except Invalid:
            decoded = False
        accepted = Checker().flaw(schema, payload, "payload") is None
        decided.append(decoded)
        assert accepted == decoded, (payload, schema)
    assert True in decided, "no value fits: the row checks nothing"
    assert False in decided, "every value fits: the row checks nothing"


# ---- plan steps ------------------------------------------------------------------------------


def submit_plan(core: Core, *steps: dict[str, Any], **fields: Any) -> str:
    options = {"plan": {"steps": list(steps)}}
    made: str = call("submit_job", core, OWNER, intent="plan", options=options, **fields)["id"]
    return made


def test_the_input_of_a_step_is_checked_when_the_plan_is_submitted(core: Core) -> None:
    with working(core, orders()):
        for given, field in (
            ({**GOOD, "customer": 7}, "options.plan.steps[0].input.customer"),
            ({"items": []}, "options.plan.steps[0].input.customer"),
            ("text", "options.plan.steps[0].input"),
        ):
            with pytest.raises(Invalid) as refused:
                submit_plan(core, {"name": "a", "intent": "order", "input": given})
            assert refused.value.field == field
        assert submit_plan(core, {"name": "a", "intent": "order", "input": GOOD})
        assert submit_plan(core, {"name": "a", "intent": "order"}, payload=GOOD)
        assert submit_plan(core, {"name": "a", "intent": "anything", "input": {"thing": 1}})


def test_what_earlier_steps_give_may_be_missing_from_the_input_of_a_step(core: Core) -> None:
    items = {"name": "items", "intent": "anything", "input": {"thing": 1, "other": 2}}
    rest = {"name": "b", "intent": "order", "needs": ["items"]}
    with working(core, orders()):
        assert submit_plan(core, items, {**rest, "input": {"customer": "c"}})
        for given in ({"customer": 7}, {}, {"customer": "c", "items": "wrong"}):
            with pytest.raises(Invalid) as refused:
                submit_plan(core, items, {**rest, "input": given})
            assert str(refused.value.field).startswith("options.plan.steps[1].input.")


def test_the_schema_has_the_defaults_that_are_no_secrets() -> None:
    def deploy(
        version: str,
        where: Literal["staging", "production"] = "staging",
        dry: bool = False,
        replicas: int = 3,
        token: str = "from the environment",
        note: str | None = None,
    ) -> None: ...

    schema = Parameters(deploy).schema()
    assert schema is not None
    defaults = {name: each.get("default") for name, each in schema["properties"].items()}
    assert defaults == {
        "version": None,
        "where": "staging",
        "dry": False,
        "replicas": 3,
        "token": None,
        "note": None,
    }
    assert schema["required"] == ["version"]
