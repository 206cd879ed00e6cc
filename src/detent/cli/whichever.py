"""What an id names: a task, a job or a run, looked for in turn, so that nobody has to say which."""

from collections.abc import Callable
from typing import TypeVar

from detent.errors import DetentError, NotFound

T = TypeVar("T")
#: Codes that say: there is none of this kind with that id, look for another kind.
UNKNOWN = ("unknown_task", "unknown_job", "unknown_run")


def whichever(work_id: str, **looks: Callable[[], T]) -> T:
    """What the first of them finds that finds anything; each is named by what it looks for."""
    for look in looks.values():
        try:
            return look()
        except DetentError as error:
            if error.code not in UNKNOWN:
                raise
    *others, last = looks
    kinds = f"{', '.join(others)} or {last}"
    raise NotFound(
        f"There is no {kinds} {work_id!r}.", hint="Look for it with `detent tasks --search TEXT`."
    )
