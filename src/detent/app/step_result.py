"""StepResult: the argument of a critic function."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one run of a plan step ended."""

    run_id: str
    #: `succeeded`, `failed`, `timeout` or `cancelled`.
    state: str
    attempt: int
    resource: str | None = None
    value: Any = None
    error_class: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"
