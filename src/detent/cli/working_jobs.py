"""The jobs of a task whose work was its work: all but those of acceptances."""

from collections.abc import Mapping, Sequence
from typing import Any

from detent.kernel.acceptance import ACCEPTANCE


def working_jobs(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The jobs whose result is the result of the task, oldest first."""
    return [row for row in rows if ACCEPTANCE not in row["options"]]
