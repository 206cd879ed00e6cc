"""A submission that an app has prepared: its intent and payload are checked, it is not sent yet."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from detent.errors import Invalid


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


def both_given(arguments: Collection[str]) -> Invalid:
    """The error about a payload beside arguments, of which one would be ignored."""
    return Invalid(
        f"a submission got a payload, and also the arguments {', '.join(arguments)}.",
        field="payload",
        hint="Give the whole payload, or all arguments by name.",
    )
