"""The record of an event, and the decorator that declares an event type. Pure."""

import re
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, NamedTuple, TypeVar, dataclass_transform

from detent.kernel.frozen_value import value


class Event:
    """The base class of events. `level` is the kind of the entity that it changes."""

    __slots__ = ()
    name: ClassVar[str]
    level: ClassVar[str]
    version: ClassVar[int]


class Record(NamedTuple):
    """An event with its stream, subject, time and actor, before it is in the log."""

    stream: str
    subject: str | None
    event: Event
    at: int
    actor: str


E = TypeVar("E", bound=type[Event])
EVENTS: dict[str, type[Event]] = {}


def level_of(name: str) -> str:
    """The level of the event with this name; empty if it is unknown.

    A document of a lifecycle declares further events of tasks, whose names begin with `task_`.
    """
    kind = EVENTS.get(name)
    if kind is not None:
        return kind.level
    return "task" if name.startswith("task_") else ""


def may_count_round(name: str) -> bool:
    """Whether an event with this name may have counted a round; its field `round` says so.

    That is `task_rejected`, or an event that only a document of a lifecycle declares.
    """
    return name == "task_rejected" or (name not in EVENTS and level_of(name) == "task")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event(level: str, version: int = 1) -> Callable[[E], E]:
    """Declare an event type; its name is the class name in snake case."""

    def declare(cls: E) -> E:
        made = value(cls)
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        made.level = level
        made.version = version
        if "name" not in cls.__annotations__:
            made.name = name
        EVENTS[name] = made
        return made

    return declare
