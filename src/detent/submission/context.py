"""The context of a submission: the store, the settings, the known intents and the caller."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from detent.kernel.commands import Actor
from detent.settings import Settings
from detent.store.port import Store

Intents = Mapping[str, Mapping[str, Any]]


class Context(NamedTuple):
    """What a submission is checked against. The submissions of one request share it."""

    store: Store
    settings: Settings
    intents: Intents
    actor: Actor
    #: The only project that the caller may submit to; None for all.
    project: str | None = None
