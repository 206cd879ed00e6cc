"""The context of a submission: the store, the settings, the known intents and the caller."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from detent.kernel.commands import Actor
from detent.kernel.task_lifecycle import Choices, choices
from detent.settings import Settings
from detent.store.port import Store
from detent.task_lifecycles import SHIPPED

SHIPPED_CHOICES = choices(SHIPPED)
Intents = Mapping[str, Mapping[str, Any]]


class Checked(NamedTuple):
    """Fields of a command that passed their checks."""

    project: str
    lifecycle: str
    source: str
    priority: str
    budget: int | None
    options: dict[str, Any]
    #: Whether every task with the same fields passes them, whatever its payload is.
    lasts: bool


@dataclass(frozen=True, slots=True)
class Context:
    """What submissions are checked against. The submissions of one request share it."""

    store: Store
    settings: Settings
    intents: Intents
    actor: Actor
    #: The only project that the caller may submit to; None for all.
    project: str | None = None
    lifecycles: Choices = SHIPPED_CHOICES
    #: The trace context of the request, a W3C `traceparent`; None if it has none.
    traceparent: str | None = None
    #: By the fields of a request: what was checked before and lasts.
    checked: dict[tuple[str | None, ...], Checked] = field(default_factory=dict)
