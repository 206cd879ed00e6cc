"""PlanRequest: the argument of a planner function."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a planner gets: the payload, the version to make, and how earlier plan steps ended."""

    #: The payload of the job, as JSON values.
    payload: Any
    #: The version of the plan that the planner makes, from 1.
    version: int
    #: The results of the plan steps that have succeeded, by name.
    results: Mapping[str, Any]
    #: The errors of the plan steps that have failed, by name.
    errors: Mapping[str, str]
