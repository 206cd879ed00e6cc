"""Selects the jobs that did the work of a task: all except those that carry out an acceptance."""

from collections.abc import Mapping, Sequence
from typing import Any

from detent.kernel.acceptance import ACCEPTANCE


def working_jobs(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The jobs whose result is the result of the task, oldest first."""
    return [row for row in rows if ACCEPTANCE not in row["options"]]
