"""The names of a store's tables and of the rows that detent itself keeps in `system_state`."""

from collections.abc import Mapping

from detent.kernel.events import JobDeleted, TaskDeleted

#: Small tables of named JSON values: what operators and integrations keep, outside the log.
TABLES = (
    "projects",
    "intents",
    "workers",
    "schedules",
    "resources",
    "limits",
    "tokens",
    "system_state",
    "webhooks",
    "notion_pages",
)

#: Tables whose rows follow from the log alone. Everything else is kept when they are made anew.
REBUILT = (
    "tasks",
    "dependencies",
    "jobs",
    "runs",
    "evidence",
    "plans",
    "steps",
    "waits",
    "signals",
    "checkpoints",
    "queue",
    "deadlines",
)

#: Events that keep what they say when the work that they are about is deleted.
TOMBSTONES = (TaskDeleted.name, JobDeleted.name)

#: The row of `system_state` that says up to which position the log was trimmed.
TRIMMED = "trimmed"

#: The row with the position up to which chain blocks cover the log.
CHAINED_POSITION = "sealed"

#: The row with the late chain blocks that were accepted: the chain's value by its position.
LATE_BLOCKS = "late_seals"

#: Where a search looks: the words that people remember of a row.
SEARCHED: Mapping[str, tuple[str, ...]] = {
    "tasks": ("id", "title", "intent"),
    "jobs": ("id", "intent", "error"),
    "runs": ("id", "worker", "error"),
}

#: Tables that people list, with the column that identifies a row in each.
LISTED: Mapping[str, str] = {
    "tasks": "id",
    "jobs": "id",
    "runs": "id",
    "steps": "name",
    "waits": "name",
    "queue": "job_id",
    "checkpoints": "name",
    "evidence": "file",
    "questions": "job_id",
}
