"""Ids that a person has shortened: a beginning or an end stands for the one id that has it."""

from typing import Any

from detent.errors import DetentError, Invalid, NotFound

#: By the code of an error that an id is not known: the kind of work that it should have named.
KINDS = {"unknown_task": "task", "unknown_job": "job", "unknown_run": "run"}


class ShortIds:
    """A connection that looks up an id once nothing has exactly that id."""

    _known: dict[tuple[str, str], str]

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """The operation's answer; its refusal is raised as the error that it is."""
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
        """The same, for ids that are whole or were looked up before."""
        return self._call(operation, **self._resolved(arguments))

    def whole(self, kind: str, part: str) -> str:
        """The id that is meant; what stands for none is given back as it is."""
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
        except NotFound:  # the gateway is of an older version
            return None
        ids: list[str] = found["items"]
        if len(ids) > 1:
            listed = ", ".join(ids) + (", …" if found["more"] else "")
            raise Invalid(
                f"{part!r} stands for more than one {kind}: {listed}.",
                field=f"{kind}_id",
                given=part,
                allowed=ids,
                hint="Write more letters of the id.",
            )
        return ids[0] if ids else None
