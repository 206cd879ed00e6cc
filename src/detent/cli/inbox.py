"""`detent inbox`: handle the items that wait for a person, one by one."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import Connection, connect
from detent.cli.option_names import replace_fields
from detent.cli.review_session import ReviewSession, Shown
from detent.cli.table_columns import task_state_cell
from detent.cli.task_selection import print_outcome
from detent.cli.variants import print_variants
from detent.cli.working_jobs import working_jobs
from detent.errors import DetentError

#: By the value of --group, the name of an item's group.
GROUPS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "project": lambda row: str(row["project"]),
    "kind": lambda row: str(row["kind"]),
    "intent": lambda row: str(row["intent"]),
    "person": lambda row: str(row["assigned_to"] or "no person"),
}


@click.command()
@click.option("--list", "only_list", is_flag=True, help="Only list the items.")
@click.option("--project", help="Only items of this project.")
@click.option("--kind", help="Only items of these kinds, separated by commas: review, failure, …")
@click.option("--intent", help="Only items of this intent (task type).")
@click.option("--assigned", metavar="PERSON", help="Only tasks that are assigned to this person.")
@click.option("--mine", is_flag=True, help="Only tasks that are assigned to you.")
@click.option("--unassigned", is_flag=True, help="Only items that are assigned to no person.")
@click.option("--snoozed", is_flag=True, help="Only tasks that you have snoozed.")
@click.option("--group", type=click.Choice(list(GROUPS)), help="List the items in groups.")
@click.option("--drop", metavar="NUMBER", help="Delete the refused submission with this number.")
@output.json_option
def inbox(
    only_list: bool, drop: str | None, group: str | None, as_json: bool, **filters: Any
) -> None:
    """Handle the items that wait for a person, one by one, the most urgent first."""
    with connect() as detent:
        if drop is not None:
            _drop(detent, drop, as_json)
            return
        found = detent.call("inbox", **_given(filters))
        if as_json:
            output.print_json(found)
        elif found["count"] == 0:
            output.print_text(f"Nothing waits for a person.{_snoozed(found)}")
        elif only_list or group or not sys.stdin.isatty():
            _list(found, group)
        else:
            _handle_all(detent, found)


def _given(filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters that were given, as the operation names them."""
    names = {"assigned": "assigned_to"}
    return {names.get(name, name): value for name, value in filters.items() if value}


def _snoozed(found: Mapping[str, Any]) -> str:
    return f" {found['snoozed']} snoozed: detent inbox --snoozed." if found["snoozed"] else ""


def _handle_all(detent: Connection, found: Mapping[str, Any]) -> None:
    items = inbox_items(found)
    for number, row in enumerate(items, 1):
        output.print_text(f"\n{number} of {len(items)}")
        _handle(detent, row)
    for row in found["refused"]:
        _handle_refused(detent, row)


def _list(found: Mapping[str, Any], group: str | None) -> None:
    items, refused = inbox_items(found), found["refused"]
    for name, rows in _grouped(items, group):
        if group is not None:
            output.print_text(f"{name} ({len(rows)})")
        output.print_table(
            ("ID", "PRIORITY", "STATE", "WAITS FOR", "INTENT", "ASSIGNED"),
            [
                (
                    *(row["id"], row["priority"], task_state_cell(row), request_text(row)),
                    *(row["intent"], row["assigned_to"] or ""),
                )
                for row in rows
            ],
        )
    if refused:
        output.print_text(
            "Refused submissions of other programs (to delete one: detent inbox --drop NUMBER):"
        )
        cells = [(row["id"], row["refused_at"], row["intent"], row["detail"]) for row in refused]
        output.print_table(("NUMBER", "REFUSED", "INTENT", "WHY"), cells)
    output.print_text(f"{found['count']} waiting.{_snoozed(found)}")


def _grouped(
    items: Sequence[Mapping[str, Any]], group: str | None
) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The items in groups, each in the place of its most urgent item."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in items:
        groups.setdefault("" if group is None else GROUPS[group](row), []).append(row)
    return list(groups.items())


def _handle_refused(detent: Connection, row: Mapping[str, Any]) -> None:
    """Ask whether to delete a refused submission; it cannot be repaired."""
    output.print_text(f"\nRefused submission {row['id']}  {row['intent']}\n  {row['detail']}")
    output.print_text(f"  {row['body']}")
    if click.prompt("  do", type=click.Choice(["drop", "skip"]), default="skip") == "drop":
        _drop(detent, row["id"], as_json=False)


def _drop(detent: Connection, number: str, as_json: bool) -> None:
    dropped = detent.call("drop_refused", intake_id=number)
    output.print_result(dropped, f"Dropped {number}.", as_json)


def inbox_items(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """All items of the inbox in one list, by priority and age.

    A question of a job without a task gets the fields of a blocked task; `question` is its name.
    """
    alone = [
        {
            **{name: each[name] for name in ("project", "intent", "priority", "state", "kind")},
            "id": each["job_id"],
            "lifecycle": "job",
            "phase": "blocked",
            "title": "",
            "error_class": None,
            "state_at": each["begun_at"],
            "blocked_by": each["kind"],
            "blocked_detail": each["detail"],
            "question": each["name"],
            "assigned_to": None,
        }
        for each in found["questions"]
    ]
    return sorted([*found["items"], *alone], key=lambda row: (row["priority"], row["state_at"]))


def request_text(row: Mapping[str, Any]) -> str:
    """What a person has to do."""
    if row["error_class"] == "lost":
        return (
            "quarantine: several workers were lost while they ran it; fix the cause, then retry it"
        )
    if row["phase"] != "blocked":
        return f"{_request(row)}: {output.alternatives(_legal_actions(row))}"
    detail = row["blocked_detail"]
    text = detail.get("text") or detail.get("error") or ""
    options = detail.get("options")
    shown = [*map(str, options or ()), *(["or your own words"] if detail.get("other") else [])]
    listed = f" ({', '.join(shown)})" if options else ""
    return f"{row['blocked_by']}: {text}{listed}"


def _handle(detent: Connection, row: Mapping[str, Any]) -> None:
    """Ask a person what to do with an item, until an action succeeds or the item is skipped."""
    output.print_text(f"{row['id']}  {row['intent']}  {row['title']}\n  {request_text(row)}")
    choices = JOB_ACTIONS if "question" in row else _legal_actions(row)
    more = ["review", "show", "skip"] if "accept" in choices else ["show", "skip"]
    while True:
        choice = click.prompt("  do", type=click.Choice([*choices, *more]), default="skip")
        if choice == "skip":
            return
        try:
            if choice == "review":
                ReviewSession(detent, Shown(detent, row["id"])).run()
                return
            if choice == "show":
                _show(detent, row)
                continue
            print_outcome(choices[choice](detent, row), as_json=False)
            return
        except DetentError as error:
            replace_fields(error, {"max_budget_usd": "The budget"})
            output.print_error(error)


def _legal_actions(row: Mapping[str, Any]) -> dict[str, "Action"]:
    """The actions on an item that are legal now."""
    legal = {each["action"] for each in row["actions"]}
    events = {each: _send(each) for each in row["events"]}
    own = {name: action for name, action in ACTIONS[_kind(row)].items() if name in legal}
    return {**events, **own}


def _kind(row: Mapping[str, Any]) -> str:
    """Why it waits: the reason of a block, a decision about the work, or how the work ended."""
    if row["phase"] == "blocked":
        return str(row["blocked_by"])
    if row["ending"] is None:
        return "review"
    return "ended" if row["waits_for_person"] else "ended_below"


def _request(row: Mapping[str, Any]) -> str:
    ended = str(row["state"]).replace("_", " ")
    return {
        "review": "review",
        "ended": ended,
        "ended_below": f"{ended}, and its parent waits for it",
    }[_kind(row)]


def _show(detent: Connection, row: Mapping[str, Any]) -> None:
    """Print the payload, the result and the end of the output."""
    if "question" in row:
        _show_job(detent, row["id"])
        return
    jobs = working_jobs(detent.call("task_jobs", task_id=row["id"])["items"])
    logs = detent.call("task_logs", task_id=row["id"])["text"]
    fields = {"payload": row["payload"], "comment": row["comment"]}
    if row["acceptance"] and row["acceptance"]["problem"]:
        fields["not accepted"] = row["acceptance"]["problem"]
    fields["result"] = jobs[-1]["result"] if jobs else None
    output.print_fields(("task", row["id"]), fields)
    output.print_text("\n".join(logs.splitlines()[-20:]))


def _show_job(detent: Connection, job_id: str) -> None:
    job = detent.call("show_job", job_id=job_id)
    logs = detent.call("job_logs", job_id=job_id)["text"]
    output.print_fields(("job", job_id), {"payload": job["payload"]})
    output.print_text("\n".join(logs.splitlines()[-20:]))


Action = Callable[[Connection, Mapping[str, Any]], Any]


def _answer(detent: Connection, row: Mapping[str, Any]) -> Any:
    answer = click.prompt("  answer")
    asked = row["blocked_detail"].get("wait")
    return detent.call("answer_task", task_id=row["id"], question=asked, answer=answer)


def _choose(detent: Connection, row: Mapping[str, Any]) -> Any:
    print_variants(detent.call("variants", task_id=row["id"]))
    return detent.call("choose_variant", task_id=row["id"], variant=click.prompt("  number"))


def _answer_job(detent: Connection, row: Mapping[str, Any]) -> Any:
    answer = click.prompt("  answer")
    return detent.call("answer_job", job_id=row["id"], question=row["question"], answer=answer)


def _accept(detent: Connection, row: Mapping[str, Any]) -> Any:
    """Accept the version of the task that was shown, and no later one."""
    return detent.call("accept_task", task_id=row["id"], seen=row["version"])


def _reject(detent: Connection, row: Mapping[str, Any]) -> Any:
    comment = click.prompt("  what is wrong")
    again = click.confirm("  run it again", default=True)
    return detent.call(
        "reject_task", task_id=row["id"], comment=comment, run=again, seen=row["version"]
    )


def _send(event: str) -> Action:
    """Send an event of the lifecycle to the version of the task that was shown."""

    def action(detent: Connection, row: Mapping[str, Any]) -> Any:
        comment = click.prompt("  comment", default="", show_default=False)
        return detent.call(
            "send_event",
            task_id=row["id"],
            event=event,
            comment=comment or None,
            seen=row["version"],
        )

    return action


def _raise(detent: Connection, row: Mapping[str, Any]) -> Any:
    """Raise the budget that is spent: of the task, or of a task above it."""
    spent = next(each["id"] for each in row["actions"] if each["action"] == "raise")
    amount = click.prompt(f"  new budget of {spent} in dollars", type=float)
    return detent.call("edit_task", task_id=spent, max_budget_usd=amount)


def _dismiss(detent: Connection, row: Mapping[str, Any]) -> Any:
    reason = click.prompt("  reason", default="", show_default=False)
    return detent.call("dismiss_task", task_id=row["id"], reason=reason or None)


def _task_action(operation: str) -> Action:
    return lambda detent, row: detent.call(operation, task_id=row["id"])


_CANCEL, _RETRY = _task_action("cancel_task"), _task_action("retry_task")
_DELETE = _task_action("delete_task")
ACTIONS: Mapping[str, Mapping[str, Action]] = {
    "review": {"accept": _accept, "reject": _reject, "cancel": _CANCEL},
    "question": {"answer": _answer, "choose": _choose, "cancel": _CANCEL},
    "needs_user": {"answer": _answer, "cancel": _CANCEL},
    "budget": {"raise": _raise, "retry": _RETRY, "dismiss": _dismiss, "cancel": _CANCEL},
    "error": {"retry": _RETRY, "dismiss": _dismiss, "cancel": _CANCEL},
    "ended": {
        "resume": _task_action("resume_task"),
        "retry": _RETRY,
        "dismiss": _dismiss,
        "delete": _DELETE,
    },
    "ended_below": {"dismiss": _dismiss},
}
#: Actions on the question of a job without a task.
JOB_ACTIONS: Mapping[str, Action] = {
    "answer": _answer_job,
    "cancel": lambda detent, row: detent.call("cancel_job", job_id=row["id"]),
}
