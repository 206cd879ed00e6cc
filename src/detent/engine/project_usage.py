"""Quotas of projects: how much each has used, and what is refused when a quota is reached.

The table `project_usage` has a row for each counter: `cost:NAME` with the cost of a day in UTC,
`submissions:NAME` with a window of time, `bytes:NAME` with the stored bytes and those of output.
The cost is counted for every project, the others only where there is a quota. A claim reads the
cost; submissions and evidence are admitted here, before they are decided.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from detent.engine.types import CommandRequest
from detent.errors import DetentError, Refused, TooMany
from detent.kernel import commands as c
from detent.kernel.world import RUNS, World
from detent.store.codec import NOT_JSON, encode
from detent.store.port import ReadTransaction, WriteTransaction

TABLE = "project_usage"
COST, SUBMISSIONS, BYTES = "cost:", "submissions:", "bytes:"
PROJECT = "project:"
#: The source of tasks that a schedule submits: an operator has limited their number.
SCHEDULE = "schedule"
#: The codes of the errors for what a quota refuses.
SUBMISSION_QUOTA, STORAGE_QUOTA = "submission_quota", "storage_quota"
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US

Row = Mapping[str, Any]


# ---- cost --------------------------------------------------------------------------------------


def costs(world: World, commands: Iterable[c.Command]) -> dict[tuple[str, str], int]:
    """By job and run: the cost of the runs that the commands charge."""
    found = {}
    for command in commands:
        if isinstance(command, c.ChargeRun):
            key = (command.grant.job_id, command.run_id)
            run = world.part(RUNS, *key)
            found[key] = 0 if run is None else run.cost
    return found


def add_costs(tx: WriteTransaction, world: World, before: Mapping[tuple[str, str], int]) -> None:
    """Count what was charged since then. The table was locked before."""
    added: dict[str, int] = {}
    for (job_id, run_id), cost in before.items():
        run = world.part(RUNS, job_id, run_id)
        if run is not None and run.cost > cost:
            project = world.jobs[job_id].project
            added[project] = added.get(project, 0) + run.cost - cost
    if added:
        rows, today = tx.rows_under(TABLE, COST), tx.now() // DAY_US
        tx.put_rows(
            TABLE,
            {
                COST + project: {"day": today, "cost": cost_of(rows, project, today) + cost}
                for project, cost in added.items()
            },
        )


def cost_of(rows: Mapping[str, Row], project: str, day: int) -> int:
    """What the runs of a project were charged on a day, in micro-dollars."""
    row = rows.get(COST + project, {})
    return int(row["cost"]) if row.get("day") == day else 0


def spent(limits: Mapping[str, Row], view: ReadTransaction) -> list[str]:
    """The names of the limits whose projects have reached their cost per day."""
    limited = [name for name, row in limits.items() if "cost_per_day" in row]
    if not limited:
        return []
    rows, today = view.rows_under(TABLE, COST), view.now() // DAY_US
    return [
        name
        for name in limited
        if cost_of(rows, name.removeprefix(PROJECT), today) >= limits[name]["cost_per_day"]
    ]


# ---- submissions and stored bytes --------------------------------------------------------------


def stored(row: Row) -> int:
    """All bytes of a project: payloads and evidence as counted, output as last measured."""
    return int(row.get("bytes", 0) + row.get("output", 0))


def quotas(limits: Mapping[str, Row]) -> dict[str, Row]:
    """By project: the limits of those that have a quota of submissions or of stored bytes."""
    return {
        name.removeprefix(PROJECT): row
        for name, row in limits.items()
        if ("submit_rate" in row or "stored_bytes" in row) and name.startswith(PROJECT)
    }


class Counted(NamedTuple):
    """A request that counts: its place in the batch, its project, its submissions and bytes."""

    place: int
    project: str
    submissions: int
    bytes: int


def counted(
    view: ReadTransaction, requests: Sequence[CommandRequest], limited: Mapping[str, Row]
) -> list[Counted]:
    """The requests that count. One whose idempotency key is known repeats an earlier one."""
    keys = {(each.key.project, each.key.key) for each in requests if each.key is not None}
    known = {(key.project, key.key) for key in view.keys(keys, view.now())} if keys else set()
    adding = [_job_of(each.command) for each in requests]
    wanted = {each for each in adding if each is not None}
    jobs = {job.id: job.project for job, _ in view.jobs(wanted)} if wanted else {}
    found = []
    for place, request in enumerate(requests):
        command: Any = request.command
        if request.key is not None and (request.key.project, request.key.key) in known:
            continue
        submitted, attached = _project_of(command), jobs.get(adding[place] or "", "")
        if submitted in limited:
            found.append(Counted(place, submitted, 1, _size(command.payload)))
        elif attached in limited:
            found.append(Counted(place, attached, 0, command.size))
    return found


def concerns(requests: Sequence[CommandRequest], limited: Mapping[str, Row]) -> bool:
    """Whether one of the requests may count."""
    return any(
        _project_of(each.command) in limited or _job_of(each.command) is not None
        for each in requests
    )


def _project_of(command: c.Command) -> str:
    """The project of new work, without that of schedules and what runs submit below themselves."""
    if isinstance(command, c.SubmitTask) and command.parent_id is None:
        return "" if command.source == SCHEDULE else command.project
    if isinstance(command, c.SubmitJob) and command.parent_job_id is None:
        return command.project
    return ""


def _job_of(command: c.Command) -> str | None:
    """The job that gets evidence."""
    if isinstance(command, c.AddEvidence):
        return command.grant.job_id
    return command.job_id if isinstance(command, c.AttachEvidence) else None


def _size(payload: Any) -> int:
    try:
        return len(encode(payload))
    except NOT_JSON:  # it is refused later
        return 0


def admit(
    tx: WriteTransaction, requests: Sequence[Counted], limited: Mapping[str, Row]
) -> dict[int, DetentError]:
    """Count what the quotas allow; returns the errors of the others by their places."""
    usage = _Usage(tx.rows_for_update(TABLE), limited, tx.now())
    refused: dict[int, DetentError] = {}
    for each in requests:
        error = usage.refusal(each)
        if error is None:
            usage.add(each)
        else:
            refused[each.place] = error
    tx.put_rows(TABLE, usage.changed)
    return refused


class _Usage:
    """The counters of projects during a batch."""

    def __init__(self, rows: Mapping[str, Row], limited: Mapping[str, Row], now: int) -> None:
        self._rows, self._limited, self._now = rows, limited, now
        self.changed: dict[str, Row] = {}

    def _row(self, name: str) -> Row:
        return self.changed.get(name) or self._rows.get(name, {})

    def _window(self, project: str) -> tuple[int, int]:
        """When the present window of a project began, and how many submissions it has."""
        row = self._row(SUBMISSIONS + project)
        length = self._limited[project].get("submit_per_s", 1) * SECOND_US
        if row and 0 <= self._now - row["from"] < length:
            return row["from"], row["count"]
        return self._now, 0

    def refusal(self, each: Counted) -> DetentError | None:
        project = each.project
        limits = self._limited[project]
        rate, most = limits.get("submit_rate"), limits.get("stored_bytes")
        begun, count = self._window(project)
        if rate is not None and each.submissions and count >= rate:
            per_s = limits.get("submit_per_s", 1)
            left_s = -((self._now - begun - per_s * SECOND_US) // SECOND_US)
            return TooMany(
                f"Project {project!r} has reached its quota of {rate} submissions in {per_s} s. "
                "Nothing was stored.",
                code=SUBMISSION_QUOTA,
                retry_after_s=left_s,
            )
        used = stored(self._row(BYTES + project))
        if most is not None and used + each.bytes > most:
            return Refused(
                f"Project {project!r} has stored {used:,} bytes of its quota of {most:,}; "
                f"{each.bytes:,} more do not fit. Nothing was stored.",
                code=STORAGE_QUOTA,
                details={"project": project, "used": used, "max": most, "wanted": each.bytes},
            )
        return None

    def add(self, each: Counted) -> None:
        project = each.project
        limits = self._limited[project]
        if "submit_rate" in limits and each.submissions:
            begun, count = self._window(project)
            window = {"from": begun, "count": count + each.submissions}
            self.changed[SUBMISSIONS + project] = window
        if "stored_bytes" in limits:
            row = self._row(BYTES + project)
            used = row.get("bytes", 0) + each.bytes
            self.changed[BYTES + project] = {**row, "bytes": used}
