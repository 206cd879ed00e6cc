"""Events of installed lifecycles: installed, removed.

They belong to the whole installation and have a stream of their own. The subject of an event is the
lifecycle's id.
"""

from collections.abc import Mapping
from typing import Any

from detent.kernel.events.limit import SYSTEM
from detent.kernel.events.record import Event, event

#: The stream of the documents. No task or job has an id with an `@`.
LIFECYCLES = "@lifecycles"
#: The streams of the installation itself.
INSTALLATION = frozenset({SYSTEM, LIFECYCLES})


@event("lifecycle")
class LifecycleInstalled(Event):
    """The document, which never changes; a new version is another lifecycle."""

    document: Mapping[str, Any]


@event("lifecycle")
class LifecycleRemoved(Event):
    """No task uses it any more, and none can be created with it."""
