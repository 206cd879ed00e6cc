"""`detent inbox`: what waits for a person, one by one."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.table_columns import task_state
from detent.cli.task_selection import told
from detent.cli.typed_values import value_from
from detent.errors import DetentError


@click.command()
@click.option("--list", "only_list", is_flag=True, help="Only list; ask nothing.")
@click.option("--project", help="Only this project.")
@click.option("--drop", metavar="NUMBER", help="Drop a refused submission of this number.")
@output.json_option
def inbox(only_list: bool, project: str | None, drop: str | None, as_json: bool) -> None:
    """Deal with what waits for a person, one by one."""
    with connect() as detent:
        if drop is not None:
            _drop(detent, drop, as_json)
            return
        found = detent.call("inbox", project=project)
        items, refused = matters(found), found["refused"]
        if as_json:
            output.print_json(found)
        elif not items and not refused:
            output.say("Nothing waits for a person.")
        elif only_list or not sys.stdin.isatty():
            _list(items, refused)
        else:
            for number, row in enumerate(items, 1):
                output.say(f"\n{number} of {len(items)}")
                _deal_with(detent, row)
            for row in refused:
                _deal_with_refused(detent, row)


def _list(items: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, Any]]) -> None:
    if items:
        rows = [(row["id"], task_state(row), wanted(row), row["intent"]) for row in items]
        output.table(("ID", "STATE", "WANTED", "INTENT"), rows)
    if refused:
        output.say("Refused submissions of other programs (`detent inbox --drop NUMBER`):")
        cells = [(row["id"], row["refused_at"], row["intent"], row["detail"]) for row in refused]
        output.table(("NUMBER", "REFUSED", "INTENT", "WHY"), cells)


def _deal_with_refused(detent: Connection, row: Mapping[str, Any]) -> None:
    """A submission that was refused cannot be repaired here: it is dropped, or it stays."""
    output.say(f"\nRefused submission {row['id']}  {row['intent']}\n  {row['detail']}")
    output.say(f"  {row['body']}")
    if click.prompt("  do", type=click.Choice(["drop", "skip"]), default="skip") == "drop":
        _drop(detent, row["id"], as_json=False)


def _drop(detent: Connection, number: str, as_json: bool) -> None:
    dropped = detent.call("drop_refused", intake_id=number)
    output.print_json(dropped) if as_json else output.say(f"Dropped {number}.")


def matters(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All of the inbox in one list, oldest first. What a job alone asks looks much like a task that
    is blocked by it; `question` is its name."""
    alone = [
        {
            **{name: each[name] for name in ("project", "intent", "priority", "state")},
            "id": each["job_id"],
            "lifecycle": "job",
            "title": "",
            "error_class": None,
            "state_at": each["begun_at"],
            "blocked_by": each["kind"],
            "blocked_detail": each["detail"],
            "question": each["name"],
        }
        for each in found["questions"]
    ]
    return sorted([*found["items"], *alone], key=lambda row: row["state_at"])


def wanted(row: Mapping[str, Any]) -> str:
    """What a person is asked for."""
    if row["error_class"] == "lost":
        return "quarantine: its workers were lost again and again; retry it when that is mended"
    if row["state"] != "blocked" and "question" not in row:
        return f"{WANTED[row['state']]}: {' or '.join(_dealings(row))}"
    detail = row["blocked_detail"]
    text = detail.get("text") or detail.get("error") or ""
    options = detail.get("options")
    shown = [*map(str, options or ()), *(["or your own words"] if detail.get("other") else [])]
    listed = f" ({', '.join(shown)})" if options else ""
    return f"{row['blocked_by']}: {text}{listed}"


def _deal_with(detent: Connection, row: Mapping[str, Any]) -> None:
    """Ask until something was done or it is skipped; a refusal is told, and asked again."""
    output.say(f"{row['id']}  {row['intent']}  {row['title']}\n  {wanted(row)}")
    choices = OF_JOBS if "question" in row else _dealings(row)
    while True:
        choice = click.prompt("  do", type=click.Choice([*choices, "show", "skip"]), default="skip")
        if choice == "skip":
            return
        try:
            if choice == "show":
                _show(detent, row)
                continue
            told(choices[choice](detent, row), as_json=False)
            return
        except DetentError as error:
            output.complain(error)


def _dealings(row: Mapping[str, Any]) -> dict[str, "Dealing"]:
    """What can be done about it, of that which the server would accept now."""
    legal = {each["action"] for each in row["actions"]}
    return {name: deal for name, deal in DEALINGS[_kind(row)].items() if name in legal}


def _kind(row: Mapping[str, Any]) -> str:
    return str(row["blocked_by"] if row["state"] == "blocked" else row["state"])


def _show(detent: Connection, row: Mapping[str, Any]) -> None:
    """What there is to judge by: the payload, the result, and the end of what it wrote."""
    if "question" in row:
        _show_job(detent, row["id"])
        return
    jobs = detent.call("task_jobs", task_id=row["id"])["items"]
    logs = detent.call("task_logs", task_id=row["id"])["text"]
    fields = {"payload": row["payload"], "comment": row["comment"]}
    output.fields(row["id"], {**fields, "result": jobs[-1]["result"] if jobs else None})
    output.say("\n".join(logs.splitlines()[-20:]))


def _show_job(detent: Connection, job_id: str) -> None:
    job = detent.call("show_job", job_id=job_id)
    logs = detent.call("job_logs", job_id=job_id)["text"]
    output.fields(job_id, {"payload": job["payload"]})
    output.say("\n".join(logs.splitlines()[-20:]))


#: What is asked of a person where nothing more is said.
WANTED = {
    "ready": "review",
    "failed": "it failed",
    "timed_out": "it took too long",
    "cancelled": "its parent waits for it, and it was cancelled",
    "budget_exceeded": "its parent waits for it, and it has spent its budget",
}
Dealing = Callable[[Connection, Mapping[str, Any]], Any]


def _answer(detent: Connection, row: Mapping[str, Any]) -> Any:
    return detent.call("answer_task", task_id=row["id"], answer=click.prompt("  answer"))


def _answer_job(detent: Connection, row: Mapping[str, Any]) -> Any:
    answer = click.prompt("  answer")
    return detent.call("answer_job", job_id=row["id"], question=row["question"], answer=answer)


def _accept(detent: Connection, row: Mapping[str, Any]) -> Any:
    """What was looked at, and nothing that came after it."""
    return detent.call("accept_task", task_id=row["id"], seen=row["version"])


def _reject(detent: Connection, row: Mapping[str, Any]) -> Any:
    comment = click.prompt("  what is wrong")
    again = click.confirm("  run it again", default=True)
    return detent.call(
        "reject_task", task_id=row["id"], comment=comment, run=again, seen=row["version"]
    )


def _raise(detent: Connection, row: Mapping[str, Any]) -> Any:
    """Its own budget, or one above it: whichever is spent."""
    spent = next(each["id"] for each in row["actions"] if each["action"] == "raise")
    amount = click.prompt(f"  new budget of {spent} in dollars")
    return detent.call("edit_task", task_id=spent, max_budget_usd=value_from(amount))


def _dismiss(detent: Connection, row: Mapping[str, Any]) -> Any:
    reason = click.prompt("  reason", default="", show_default=False)
    return detent.call("dismiss_task", task_id=row["id"], reason=reason or None)


def _simply(operation: str) -> Dealing:
    return lambda detent, row: detent.call(operation, task_id=row["id"])


_CANCEL, _RETRY = _simply("cancel_task"), _simply("retry_task")
_DELETE = _simply("delete_task")
DEALINGS: Mapping[str, Mapping[str, Dealing]] = {
    "ready": {"accept": _accept, "reject": _reject, "cancel": _CANCEL},
    "question": {"answer": _answer, "cancel": _CANCEL},
    "needs_user": {"answer": _answer, "cancel": _CANCEL},
    "budget": {"raise": _raise, "retry": _RETRY, "dismiss": _dismiss, "cancel": _CANCEL},
    "error": {"retry": _RETRY, "dismiss": _dismiss, "cancel": _CANCEL},
    "failed": {"retry": _RETRY, "dismiss": _dismiss, "delete": _DELETE},
    "timed_out": {
        "resume": _simply("resume_task"),
        "retry": _RETRY,
        "dismiss": _dismiss,
        "delete": _DELETE,
    },
    "cancelled": {"dismiss": _dismiss},
    "budget_exceeded": {"dismiss": _dismiss},
}
#: With what a job alone asks.
OF_JOBS: Mapping[str, Dealing] = {
    "answer": _answer_job,
    "cancel": lambda detent, row: detent.call("cancel_job", job_id=row["id"]),
}
