"""What an id names: a task, a job or a run, asked for in that order."""

from itertools import product
from typing import Any

from detent.cli.connection import Connection
from detent.cli.short_ids import ShortIds
from detent.errors import DetentError, NotFound

#: An operation and the parameter that takes the id, for each kind of work that it may name.
Way = tuple[str, str]
#: Codes that say: there is none of this kind with that id, look for another kind.
UNKNOWN = ("unknown_task", "unknown_job", "unknown_run")


def first_known(detent: Connection, work_id: str, *ways: Way, **arguments: Any) -> Any:
    """The answer of the first operation that knows the id."""
    return way_to(detent, work_id, *ways, **arguments)[1]


def way_to(detent: Connection, work_id: str, *ways: Way, **arguments: Any) -> tuple[Way, Any]:
    """The operation that knows the id, and what it has answered.

    An id that is whole for one kind of work counts before one that is short for another.
    """
    asks = (detent.exactly, detent.call) if isinstance(detent, ShortIds) else (detent.call,)
    for ask, (operation, parameter) in product(asks, ways):
        try:
            answer = ask(operation, **{parameter: work_id}, **arguments)
        except DetentError as error:
            if error.code not in UNKNOWN:
                raise
        else:
            return (operation, parameter), answer
    kinds = [parameter.removesuffix("_id") for _, parameter in ways]
    named = " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    raise NotFound(
        f"There is no {named} {work_id!r}.",
        code=f"unknown_{kinds[0]}",
        hint=f"Check the id with {' or '.join(f'`detent {kind}s`' for kind in kinds)}.",
    )


def whole_id(detent: Connection, kind: str, part: str) -> str:
    """The id of the task, job or run that is meant."""
    return detent.whole(kind, part) if isinstance(detent, ShortIds) else part
