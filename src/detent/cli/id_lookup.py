"""Find the task, job or run that an id belongs to."""

from itertools import product
from typing import Any

from detent.cli import output
from detent.cli.connection import Connection
from detent.cli.short_ids import ShortIds
from detent.errors import DetentError, NotFound

#: An operation, and its parameter that takes the id.
Lookup = tuple[str, str]
#: Error codes that mean: no object of this kind has the id, so try the next kind.
UNKNOWN_ID_CODES = ("unknown_task", "unknown_job", "unknown_run")


def call_first_match(detent: Connection, work_id: str, *lookups: Lookup, **arguments: Any) -> Any:
    """The result of the first operation that knows the id."""
    return find_lookup(detent, work_id, *lookups, **arguments)[1]


def find_lookup(
    detent: Connection, work_id: str, *lookups: Lookup, **arguments: Any
) -> tuple[Lookup, Any]:
    """The first operation that knows the id, and its result.

    A complete id of any kind is found before a shortened one.
    """
    calls = (detent.exactly, detent.call) if isinstance(detent, ShortIds) else (detent.call,)
    for call, (operation, parameter) in product(calls, lookups):
        try:
            answer = call(operation, **{parameter: work_id}, **arguments)
        except DetentError as error:
            if error.code not in UNKNOWN_ID_CODES:
                raise
        else:
            return (operation, parameter), answer
    kinds = [parameter.removesuffix("_id") for _, parameter in lookups]
    raise NotFound(
        f"There is no {output.alternatives(kinds)} {work_id!r}.",
        code=f"unknown_{kinds[0]}",
        hint=f"Check the id with {output.alternatives(f'`detent {kind}s`' for kind in kinds)}.",
    )


def whole_id(detent: Connection, kind: str, part: str) -> str:
    """The complete id of a task, job or run."""
    return detent.whole(kind, part) if isinstance(detent, ShortIds) else part
