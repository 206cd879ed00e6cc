"""Cases of which `./dev test` runs a sample. `./dev faults` runs all, by the parts that it has."""

from collections.abc import Iterable
from typing import Any

import pytest

#: What `./dev test` leaves out, and `./dev faults` runs.
FULL = pytest.mark.full


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """One case of every few as it is, the others marked `full`. A tuple is one case."""
    return [
        case if number % every == 0 else pytest.param(*_values(case), marks=FULL)
        for number, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
