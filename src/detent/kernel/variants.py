"""Best of N: a task whose work several variants do, as subtasks, and one of which is chosen.

The job of such a task creates the variants and waits for them; it does no work of its own. After
the choice the task continues the work of the chosen variant: in its workspace and session, with its
intent. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from detent.kernel.entities import ASSIGNED_TO, NOT_BEFORE, Job, Task, Wait

#: Options of a task: how many variants (or the intents of each), and who chooses one.
VARIANTS, CHOOSE = "variants", "choose"
#: In the options of a task and of its later jobs: the variant that was chosen. No submission can
#: set it.
CHOSEN = "chosen"
#: In the options of a variant: its number, the job that has created it, and which set of variants
#: of that job it is in. No submission can set it.
VARIANT = "variant"
MIN_VARIANTS, MAX_VARIANTS = 2, 10
#: The options of a task that its variants of another intent have too.
SHARED = (
    *("acceptance_criteria", "checker", "requires_evidence", "on_budget_exceeded"),
    *("workspace", "workspace_per"),
)
#: The options of a task that its variants do not have: they concern the task as a whole.
OF_TASK = (
    *(VARIANTS, CHOOSE, CHOSEN, ASSIGNED_TO, NOT_BEFORE),
    *("on_accept", "target_branch", "push_remote", "checker_may_accept", "max_rounds"),
)


class Chooser(StrEnum):
    """Who chooses one of the variants: a person, or one of the policies."""

    PERSON = "person"
    #: The first variant that passes; the others are cancelled.
    FIRST_PASSING = "first_passing"
    #: When all have ended, the cheapest of those that pass.
    CHEAPEST_PASSING = "cheapest_passing"


def chooser_of(options: Mapping[str, Any]) -> Chooser:
    """Who chooses one of the variants of a task with these options."""
    return Chooser(options.get(CHOOSE, Chooser.PERSON))


def intents_of(options: Mapping[str, Any], own: str) -> Sequence[str]:
    """The intent of each variant, in the order of their numbers."""
    given = options[VARIANTS]
    return [own] * given if isinstance(given, int) else list(given)


def has_variants(job: Job) -> bool:
    """Whether the job creates variants and waits for them."""
    return bool(job.options) and VARIANTS in job.options


def number_of(task: Task) -> int | None:
    """The number of a variant; None for any other task."""
    found = task.options.get(VARIANT) if task.options else None
    return None if found is None else int(found["number"])


def set_of(task: Task) -> tuple[str, int] | None:
    """The job that has created a variant, and the number of the set; None for any other task."""
    found = task.options.get(VARIANT) if task.options else None
    return None if found is None else (found["job_id"], found["set"])


def latest_set(subtasks: Iterable[Task], job_id: str | None) -> list[Task]:
    """The variants in the last set that the job has created, by number."""
    created = [each for each in subtasks if (set_of(each) or ("", 0))[0] == job_id]
    last = max((set_of(each) or ("", 0) for each in created), default=None)
    found = [each for each in created if set_of(each) == last]
    return sorted(found, key=lambda each: number_of(each) or 0)


def is_choice(wait: Wait) -> bool:
    """Whether the question of the wait is which variant to choose."""
    return wait.kind == "question" and VARIANTS in wait.detail


def chosen_of(options: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The chosen variant in the options of a task or job: its task id, number and intent."""
    found: Mapping[str, Any] | None = options.get(CHOSEN) if options else None
    return found


def workspace_owner(job: Job) -> str:
    """The id of the task (or job) whose workspace a run of the job works in."""
    chosen = chosen_of(job.options)
    return chosen["task_id"] if chosen is not None else job.task_id or job.id
