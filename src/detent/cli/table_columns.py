"""The columns of tables of tasks, jobs, runs, steps and events, the most important first."""

from collections.abc import Mapping, Sequence
from typing import Any

from detent.cli import output
from detent.cli.output import Cell

Row = Mapping[str, Any]


def task_state_cell(row: Row) -> Cell:
    return output.state_cell(row["lifecycle"], row["state"])


TASKS = ("ID", "STATE", "TITLE", "INTENT", "PRIORITY", "PROJECT", "SINCE")


def task_cells(row: Row) -> Sequence[Cell]:
    title = row["title"] or (f"({row['blocked_by']})" if row["blocked_by"] else "")
    return (
        row["id"],
        task_state_cell(row),
        title,
        row["intent"],
        row["priority"],
        row["project"],
        row["state_at"],
    )


JOBS = (
    "ID",
    "STATE",
    "INTENT",
    "TITLE",
    "ATTEMPT",
    "WORKER",
    "PRIORITY",
    "PROJECT",
    "SINCE",
    "ERROR",
)


def job_cells(row: Row) -> Sequence[Cell]:
    return (
        row["id"],
        output.state_cell("job", row["state"]),
        row["intent"],
        row.get("title", ""),
        str(row["attempt"]),
        row["worker"] or "",
        row["priority"],
        row["project"],
        row["state_at"],
        row["error"] or "",
    )


RUNS = (
    *("ID", "STATE", "OUTCOME", "REASON", "ATTEMPT", "STEP", "EXIT", "STARTED", "ENDED"),
    "WORKER",
)


def run_state_cell(row: Row) -> Cell:
    """The state of a run. A run that stopped to wait or for its budget is not a success."""
    if row["outcome"] == "suspended":
        return output.looking_cell("suspended", "waiting")
    if row["outcome"] == "budget":
        return output.looking_cell("budget", "attention")
    return output.state_cell("run", row["state"])


def run_cells(row: Row) -> Sequence[Cell]:
    return (
        row["id"],
        run_state_cell(row),
        row["outcome"] or "",
        row["reason"] or "",
        str(row["attempt"]),
        row["step"] or "",
        "" if row["exit_code"] is None else str(row["exit_code"]),
        row["started_at"] or "",
        row["ended_at"] or "",
        row["worker"],
    )


#: Runs of several tasks.
LISTED_RUNS = (*RUNS[:2], "TITLE", *RUNS[2:])


def listed_run_cells(row: Row) -> Sequence[Cell]:
    run_id, state, *rest = run_cells(row)
    return (run_id, state, row["title"], *rest)


STEPS = ("NAME", "STATE", "RESOURCE", "RETRIES", "ERROR", "SINCE", "PLAN", "JOB")


def step_cells(row: Row) -> Sequence[Cell]:
    return (
        row["name"],
        output.state_cell("step", row["state"]),
        row["resource"] or row["last_resource"] or "",
        str(row["retries"]),
        row["error"] or "",
        row["state_at"],
        str(row["plan_version"]),
        row["job_id"],
    )


EVENTS = ("POSITION", "EVENT", "AT", "BY", "ABOUT")


def event_cells(event: Row) -> tuple[str, ...]:
    """ABOUT is the run, step or wait of the event, with its resource if there is one."""
    about = event["subject"] or event["stream"]
    resource = (event["data"] or {}).get("resource")
    return (
        str(event["position"]),
        event["name"],
        event["at"],
        event["actor"],
        f"{about} on {resource}" if resource else about,
    )
