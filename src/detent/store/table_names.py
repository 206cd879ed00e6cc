"""The names of a store's tables and of the rows that detent itself keeps in `system_state`."""

from collections.abc import Mapping

from detent.kernel.events import JobDeleted, TaskDeleted

#: Small tables of named JSON values, which are not part of the log.
TABLES = (
    "projects",
    "intents",
    "workers",
    "schedules",
    "resources",
    "limits",
    "lifecycles",
    "tokens",
    "system_state",
    "webhooks",
    "notion_pages",
    "forge_items",
    "review_drafts",
    "viewed_files",
    "snoozes",
    "slack",
    "graph_checkpoints",
    "project_usage",
)

#: Follows every other character of the name of a row.
LAST = "\U0010ffff"

#: Tables whose rows are derived from the log. A rebuild writes them again and keeps all others.
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

#: Events that keep their data when their task or job is deleted.
TOMBSTONES = (TaskDeleted.name, JobDeleted.name)

#: The row of `system_state` with the position up to which the log was trimmed.
TRIMMED = "trimmed"

#: The row with the position up to which chain blocks cover the log.
CHAINED_POSITION = "sealed"

#: The row with the late chain blocks that were accepted: the chain's value by its position.
LATE_BLOCKS = "late_seals"

#: The row with the end of the hash chain before an upgrade of the storage layout. It is removed
#: when the upgraded database has been verified.
UNVERIFIED_UPGRADE = "unverified_upgrade"

#: The row by which processes measure how far a replica is behind.
REPLICA_ROW = "replica"


def status_row(role: str) -> str:
    """The row that says whether the synchronisation with a tracker works."""
    return f"{role}_status"


#: The columns that a search covers. The search of jobs and runs also covers the title of the task.
SEARCHED: Mapping[str, tuple[str, ...]] = {
    "tasks": ("id", "title", "intent"),
    "jobs": ("id", "intent", "error"),
    "runs": ("id", "worker", "error"),
}

#: Tables that can be listed, with the column that identifies a row.
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
