"""The token of a run: issuing it, the run that it belongs to, and what it may read.

The token is bound to one run and one claim. Every use is checked against the store: after the run
has ended, or its job was claimed again, the token is invalid. Uses the table `tokens`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from detent import views
from detent.errors import Refused, TooMany, Unauthorized
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.events import may_count_round
from detent.kernel.wait_kinds import PEOPLE
from detent.operations import schemas
from detent.operations.budgets import remaining, with_ancestors
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.tokens import SECOND_US, digest_of, expired, new_token, row_for
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import LoggedEvent, Query

RUN = "run"
MINUTE_US = 60 * SECOND_US
MAX_EVENTS = 10_000

Row = Mapping[str, Any]


class TokenRun(NamedTuple):
    """The run that a token belongs to, from the store."""

    grant: c.Grant
    run_id: str
    attempt: int
    job: Job
    task: Task | None


# ---- the token -------------------------------------------------------------------------------


def issue_run_token(core: Core, grant: c.Grant, run_id: str) -> str:
    """Create a token for a run under its claim, and delete the tokens of runs that have ended."""
    token = new_token()

    def write(tx: WriteTransaction) -> None:
        own = _held(tx, run_id, grant.fence)
        if own is None or own.grant != grant:
            raise Refused(f"This claim no longer holds run {run_id}.", code="stale_fence")
        caller = Caller(
            c.run_subject(run_id, own.job.root_id),
            frozenset({Scope.RUN}),
            own.job.project,
            own.job.root_id,
            run_id,
            grant.fence,
        )
        rows: dict[str, Any] = dict.fromkeys(_dead(tx))
        rows[digest_of(token)] = row_for(caller, RUN, tx.now(), None)
        tx.put_rows("tokens", rows)

    core.engine.transaction(write)
    return token


def _dead(tx: WriteTransaction) -> Iterator[str]:
    """The digests of tokens that have expired or whose run has ended."""
    now = tx.now()
    for key, row in tx.rows("tokens").items():
        ended = row.get("kind") == RUN and _held(tx, row["run_id"], row["fence"]) is None
        if ended or expired(row, now):
            yield key


def _held(view: ReadTransaction, run_id: str, fence: int) -> TokenRun | None:
    """The run, if it is running and the claim with this fence still holds its job."""
    for row in view.page(Query("runs", {"id": run_id}, limit=1)):
        for job, _ in view.jobs([row["job_id"]]):
            held = job.state == "running" and job.fence == fence and job.nonce is not None
            if held and row["state"] == "running" and row["fence"] == fence:
                tasks = [task for task, _ in view.tasks([job.task_id])] if job.task_id else []
                grant = c.Grant(job.id, fence, job.nonce or "")
                return TokenRun(grant, run_id, row["attempt"], job, tasks[0] if tasks else None)
    return None


def run_of_caller(view: ReadTransaction, caller: Caller) -> TokenRun:
    """The run of the caller's token; refused if the token has no run or the run has ended."""
    if caller.run_id is None or caller.fence is None:
        raise Refused(
            "This token does not belong to a run.",
            code="not_a_run",
            hint="Use the token of the run, from the environment variable DETENT_TOKEN.",
        )
    own = _held(view, caller.run_id, caller.fence)
    if own is None:
        raise Unauthorized(
            f"Run {caller.run_id} has ended, so its token is no longer valid.",
            hint="Stop this process: the job has ended or another run has it.",
        )
    return own


# ---- reads -----------------------------------------------------------------------------------


@operation(Scope.RUN, "GET", "/api/run")
def own_run(core: Core, caller: Caller) -> schemas.OwnRun:
    """Show the work of this run: payload, comments, answers, subtasks and remaining budget."""
    with core.store.read() as view:
        own = run_of_caller(view, caller)
        job, task = own.job, own.task
        events = _history(view, task)
        row = _task_row(view, task)
        return {
            "run_id": own.run_id,
            "job_id": job.id,
            "task_id": job.task_id,
            "attempt": own.attempt,
            "project": job.project,
            "intent": job.intent,
            "priority": job.priority,
            "title": row.get("title", ""),
            "tags": list(row.get("tags", ())),
            "payload": view.payloads([job.id]).get(job.id),
            "session_id": None if task is None else task.session_id,
            "round": 1 if task is None else task.rounds + 1,
            "budget": _budget(view, task),
            "comments": [*filter(None, map(_comment, events))],
            "answers": list(_answers(events)),
            "subtasks": _subtasks(view, task),
        }


def _task_row(view: ReadTransaction, task: Task | None) -> Row:
    return {} if task is None else view.page(Query("tasks", {"id": task.id}, limit=1))[0]


def _history(view: ReadTransaction, task: Task | None) -> Sequence[LoggedEvent]:
    return () if task is None else view.events(0, MAX_EVENTS, stream=task.id)


def _budget(view: ReadTransaction, task: Task | None) -> schemas.OwnBudget:
    if task is None:
        return {"budget": None, "spent": 0.0, "left": None}
    money = {
        "budget": task.budget,
        "spent": task.spent,
        "left": remaining(with_ancestors(view, task)),
    }
    return cast(schemas.OwnBudget, views.shown(money))


def _comment(logged: LoggedEvent) -> schemas.OwnComment | None:
    """The comment of a reviewer, if the event has started another round."""
    data = msgspec.json.decode(logged.data) if logged.data and may_count_round(logged.name) else {}
    if data.get("round") is None:
        return None
    return {
        "round": data["round"],
        "comment": data.get("comment"),
        "by": logged.actor,
        "at": views.utc(logged.at),
    }


def _answers(events: Iterable[LoggedEvent]) -> Iterator[schemas.OwnAnswer]:
    """The answers in the events. A board task is unblocked with the answer as the value."""
    for each in events:
        data = msgspec.json.decode(each.data) if each.data else {}
        if each.name == "task_answered":
            question, answer = data["question"], data["answer"]
        elif each.name == "task_unblocked" and data.get("reason") in PEOPLE:
            question, answer = data.get("wait"), data.get("value")
        else:
            continue
        yield {
            "question": question,
            "answer": answer,
            "outcome": data.get("outcome", "answered"),
            "by": each.actor,
            "at": views.utc(each.at),
        }


def _subtasks(view: ReadTransaction, task: Task | None) -> list[schemas.OwnSubtask]:
    if task is None or task.subtasks == 0:
        return []
    rows = view.page(Query("tasks", {"parent_id": task.id}, "created_at", limit=1_000))
    names = ("id", "intent", "title", "state")
    return [cast(schemas.OwnSubtask, {name: row[name] for name in names}) for row in rows]


# ---- rate limits -----------------------------------------------------------------------------


def run_for_write(core: Core, caller: Caller) -> TokenRun:
    """The run of the caller's token, after counting one write against its rate limit."""
    with core.store.read() as view:
        own = run_of_caller(view, caller)
    count_request(core, caller, "writes", core.settings.run_writes_per_minute)
    return own


def count_request(core: Core, caller: Caller, what: str, most: int) -> None:
    """Count one request in the current minute, in the token's row; refuse one over the limit."""

    def write(tx: WriteTransaction) -> None:
        now = tx.now()
        key, row = _token_of(tx, caller)
        window = row.get("counts", {}).get(what, {"from": now, "count": 0})
        if not 0 <= now - window["from"] < MINUTE_US:
            window = {"from": now, "count": 0}
        if window["count"] >= most:
            wait_s = 1 + (window["from"] + MINUTE_US - now) // SECOND_US
            raise TooMany(f"A run may make at most {most} {what} per minute.", retry_after_s=wait_s)
        more = {**window, "count": window["count"] + 1}
        counts = {**row.get("counts", {}), what: more}
        tx.put_rows("tokens", {key: {**row, "counts": counts}})

    core.engine.transaction(write)


def _token_of(tx: WriteTransaction, caller: Caller) -> tuple[str, Row]:
    for key, row in tx.rows_for_update("tokens").items():
        if row.get("kind") == RUN and (row["run_id"], row["fence"]) == (
            caller.run_id,
            caller.fence,
        ):
            return key, row
    raise Unauthorized("The token was revoked.")
