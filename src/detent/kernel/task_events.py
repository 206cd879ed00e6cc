"""The state events of tasks that detent knows. A lifecycle may add its own. Data only."""

from collections.abc import Mapping
from types import MappingProxyType

#: By event, what it records. Commands and couplings write these; a document gives them targets.
MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "task_created": "the task was submitted",
        "task_queued": "its job was created and waits for a worker",
        "task_started": "a worker started a run of its job",
        "task_blocked": "its job cannot continue; the event has the reason",
        "task_unblocked": "the reason is gone, and the job is in the queue again",
        "task_answered": "its question was answered, and the job is in the queue again",
        "task_ready": "its job completed, and a person decides about the result",
        "task_completed": "it is done",
        "task_failed": "its job failed, or a task that it depends on did",
        "task_timed_out": "its job failed because it ran out of time",
        "task_budget_exceeded": "its job failed because it spent more than its budget",
        "task_cancelled": "it was cancelled",
        "task_accepting": "a person accepted the result, and the declared action is in the queue",
        "task_accepted": "a person accepted the result; a declared action was carried out before",
        "task_rejected": "a person rejected the result, which counts a round",
        "task_retried": "a person runs it again in a new session",
        "task_resumed": "a person runs it again in the same session",
    }
)
TASK_EVENTS = frozenset(MEANINGS)
