"""A submission that an app has prepared: its intent and payload are checked, it is not sent yet."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class PreparedSubmission(NamedTuple):
    """An intent with its payload as JSON, and the type of its result."""

    intent: str
    #: None if there is no payload.
    payload: Any
    returns: Any
    #: The plan of a subtask that brings its own.
    plan: Mapping[str, Any] | None = None

    def given(self) -> dict[str, Any]:
        """The fields of the request. The plan is an option, not a field."""
        payload = {} if self.payload is None else {"payload": self.payload}
        return {"intent": self.intent, **payload}

    def options(self) -> dict[str, Any]:
        """The options of the request."""
        return {} if self.plan is None else {"plan": self.plan}
