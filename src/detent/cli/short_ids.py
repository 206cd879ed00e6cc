"""Shortened ids: a unique beginning or end of an id is accepted in place of the whole id."""

from collections.abc import Sequence
from typing import Any

from detent.errors import DetentError, Invalid, NotFound

#: The kind of work that has no such id, by error code.
KINDS = {"unknown_task": "task", "unknown_job": "job", "unknown_run": "run"}


class ShortIds:
    """A connection that looks up a shortened id if no object has exactly that id."""

    _known: dict[tuple[str, str], str]

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation and return its result; its error is raised as an exception."""
        try:
            return self.exactly(operation, **arguments)
        except DetentError as error:
            kind = KINDS.get(error.code, "")
            part = arguments.get(f"{kind}_id")
            if not isinstance(part, str) or (kind, part) in self._resolutions():
                raise
            whole = self._lookup(kind, part)
            if whole is None:
                raise
        self._resolutions()[kind, part] = whole
        return self.exactly(operation, **arguments)

    def exactly(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation with complete ids, or with ids that were looked up before."""
        return self._call(operation, **self._resolved(arguments))

    def whole(self, kind: str, part: str) -> str:
        """The complete id; a text that matches no id is returned unchanged."""
        return self._lookup(kind, part) or part

    def _call(self, operation: str, /, **arguments: Any) -> Any:
        raise NotImplementedError

    def _resolutions(self) -> dict[tuple[str, str], str]:
        if not hasattr(self, "_known"):
            self._known = {}
        return self._known

    def _resolved(self, arguments: dict[str, Any]) -> dict[str, Any]:
        known = self._resolutions()
        meant = {
            f"{kind}_id": whole
            for (kind, part), whole in known.items()
            if arguments.get(f"{kind}_id") == part
        }
        return {**arguments, **meant}

    def _lookup(self, kind: str, part: str) -> str | None:
        try:
            found = self._call("find_ids", kind=kind, part=part)
        except NotFound:  # the gateway runs an older version
            return None
        return _only(kind, part, found["items"], more=found["more"])


def only_match(kind: str, part: str, ids: Sequence[str]) -> str | None:
    """The only one of these ids that is the text, or begins or ends with it; None if none does."""
    matching = [each for each in ids if each.startswith(part) or each.endswith(part)]
    return part if part in ids else _only(kind, part, matching)


def _only(kind: str, part: str, ids: Sequence[str], *, more: bool = False) -> str | None:
    if len(ids) > 1:
        listed = ", ".join(ids) + (", …" if more else "")
        raise Invalid(
            f"{part!r} matches more than one {kind}: {listed}.",
            field=f"{kind}_id",
            given=part,
            allowed=ids,
            hint="Give more characters of the id.",
        )
    return ids[0] if ids else None
