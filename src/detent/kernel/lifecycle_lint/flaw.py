"""An error of a lifecycle's document, and what the checks share."""

from collections.abc import Iterator
from typing import NamedTuple

from detent.kernel.lifecycle import Row
from detent.kernel.task_lifecycle import TaskLifecycle


class Flaw(NamedTuple):
    """One error: the rule that found it, the field of the document, and a sentence."""

    rule: str
    field: str
    text: str

    def plain(self) -> dict[str, str]:
        return self._asdict()


def placed_rows(lifecycle: TaskLifecycle) -> Iterator[tuple[str, Row]]:
    """Return each row with its place in the document; a row with several sources is several."""
    for index, row in enumerate(lifecycle.rows):
        yield lifecycle.place(index), row
