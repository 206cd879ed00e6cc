"""The envelope of an event, and how an event type is declared. Touches nothing."""

import re
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, NamedTuple, TypeVar, dataclass_transform

from detent.kernel.frozen_value import value


class Event:
    """One thing that happened. `level` says which entity it moves."""

    __slots__ = ()
    name: ClassVar[str]
    level: ClassVar[str]
    version: ClassVar[int]


class Record(NamedTuple):
    """An event with its envelope, as decided and not yet in the log."""

    stream: str
    subject: str | None
    event: Event
    at: int
    actor: str


E = TypeVar("E", bound=type[Event])
EVENTS: dict[str, type[Event]] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def event(level: str, version: int = 1) -> Callable[[E], E]:
    """Declare an event type: its name is the class's name in snake case."""

    def declare(cls: E) -> E:
        made = value(cls)
        made.name = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        made.level = level
        made.version = version
        EVENTS[made.name] = made
        return made

    return declare
