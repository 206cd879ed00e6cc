"""StepResult: the argument of a critic function."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one run of a plan step ended."""

    #: The id of the run.
    run_id: str
    #: `succeeded`, `failed`, `timeout` or `cancelled`.
    state: str
    #: The number of the attempt, from 1.
    attempt: int
    #: The name of the resource that the plan step held.
    resource: str | None = None
    #: What the handler returned, as JSON values.
    value: Any = None
    #: The class of the failure, such as `network` or `timeout`.
    error_class: str | None = None
    #: The text of the error.
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the run succeeded."""
        return self.state == "succeeded"
