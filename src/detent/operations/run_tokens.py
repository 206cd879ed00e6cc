"""A run's own door: the token that a run is given, what stands behind it, and what it may read.

The token is bound to one run and one claim. Every use looks at the store: when the run has ended or
its job was claimed anew, the token is worthless. Touches the table `tokens`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from detent import views
from detent.errors import Refused, TooMany, Unauthorized
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.wait_kinds import PEOPLE
from detent.operations import schemas
from detent.operations.budgets import left, line
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.tokens import SECOND_US, digest_of, expired, new_token, row_for
from detent.store.port import Logged, Query, Reading, Writing

RUN = "run"
MINUTE_US = 60 * SECOND_US
MAX_EVENTS = 10_000

Row = Mapping[str, Any]


class Own(NamedTuple):
    """The run behind a token, as the store has it now."""

    grant: c.Grant
    run_id: str
    attempt: int
    job: Job
    task: Task | None


# ---- the token -------------------------------------------------------------------------------


def issue_run_token(core: Core, grant: c.Grant, run_id: str) -> str:
    """A token for this run under this claim. Tokens of runs that are over are swept away."""
    token = new_token()

    def write(tx: Writing) -> None:
        own = _held(tx, run_id, grant.fence)
        if own is None or own.grant != grant:
            raise Refused(f"The run {run_id} is not held by this claim.", code="stale_fence")
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


def _dead(tx: Writing) -> Iterator[str]:
    """Tokens that are worth nothing any more."""
    now = tx.now()
    for key, row in tx.rows("tokens").items():
        ended = row.get("kind") == RUN and _held(tx, row["run_id"], row["fence"]) is None
        if ended or expired(row, now):
            yield key


def _held(view: Reading, run_id: str, fence: int) -> Own | None:
    """The run, if it lives and its job is still in the hands of that claim."""
    for row in view.page(Query("runs", {"id": run_id}, limit=1)):
        for job, _ in view.jobs([row["job_id"]]):
            held = job.state == "running" and job.fence == fence and job.nonce is not None
            if held and row["state"] == "running" and row["fence"] == fence:
                tasks = [task for task, _ in view.tasks([job.task_id])] if job.task_id else []
                grant = c.Grant(job.id, fence, job.nonce or "")
                return Own(grant, run_id, row["attempt"], job, tasks[0] if tasks else None)
    return None


def own_of(view: Reading, caller: Caller) -> Own:
    """The caller's own run; whoever comes without one, or too late, is refused."""
    if caller.run_id is None or caller.fence is None:
        raise Refused("This token belongs to no run.", code="not_a_run")
    own = _held(view, caller.run_id, caller.fence)
    if own is None:
        raise Unauthorized(
            f"The run {caller.run_id} is over, and its token with it.",
            hint="Stop: whoever holds the work now goes on with it.",
        )
    return own


# ---- looking ---------------------------------------------------------------------------------


@operation(Scope.RUN, "GET", "/api/run")
def own_run(core: Core, caller: Caller) -> schemas.OwnRun:
    """What this run works on: payload, comments, answers, subtasks, and the money that is left."""
    with core.store.read() as view:
        own = own_of(view, caller)
        job, task = own.job, own.task
        said = _history(view, task)
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
            "round": 0 if task is None else task.rounds,
            "budget": _budget(view, task),
            "comments": [_comment(each) for each in said if each.name == "task_rejected"],
            "answers": list(_answers(said)),
            "subtasks": _subtasks(view, task),
        }


def _task_row(view: Reading, task: Task | None) -> Row:
    return {} if task is None else view.page(Query("tasks", {"id": task.id}, limit=1))[0]


def _history(view: Reading, task: Task | None) -> Sequence[Logged]:
    return () if task is None else view.events(0, MAX_EVENTS, stream=task.id)


def _budget(view: Reading, task: Task | None) -> schemas.OwnBudget:
    if task is None:
        return {"budget": None, "spent": 0.0, "left": None}
    money = {"budget": task.budget, "spent": task.spent, "left": left(line(view, task))}
    return cast(schemas.OwnBudget, views.shown(money))


def _comment(said: Logged) -> schemas.OwnComment:
    data = msgspec.json.decode(said.data)
    return {
        "round": data["round"],
        "comment": data.get("comment"),
        "by": said.actor,
        "at": views.utc(said.at),
    }


def _answers(said: Iterable[Logged]) -> Iterator[schemas.OwnAnswer]:
    """On the board an answer is the value with which a task was unblocked."""
    for each in said:
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


def _subtasks(view: Reading, task: Task | None) -> list[schemas.OwnSubtask]:
    if task is None or task.subtasks == 0:
        return []
    rows = view.page(Query("tasks", {"parent_id": task.id}, "created_at", limit=1_000))
    names = ("id", "intent", "title", "state")
    return [cast(schemas.OwnSubtask, {name: row[name] for name in names}) for row in rows]


# ---- how often -------------------------------------------------------------------------------


def writer(core: Core, caller: Caller) -> Own:
    """The caller's run, with one more write of it counted."""
    with core.store.read() as view:
        own = own_of(view, caller)
    counted(core, caller, "writes", core.settings.run_writes_per_minute)
    return own


def counted(core: Core, caller: Caller, what: str, most: int) -> None:
    """Count one more in the minute that has begun; the count stands in the token's own row."""

    def write(tx: Writing) -> None:
        now = tx.now()
        key, row = _token_of(tx, caller)
        window = row.get("counts", {}).get(what, {"from": now, "count": 0})
        if not 0 <= now - window["from"] < MINUTE_US:
            window = {"from": now, "count": 0}
        if window["count"] >= most:
            wait_s = 1 + (window["from"] + MINUTE_US - now) // SECOND_US
            raise TooMany(f"At most {most} {what} a minute for one run.", retry_after_s=wait_s)
        more = {**window, "count": window["count"] + 1}
        counts = {**row.get("counts", {}), what: more}
        tx.put_rows("tokens", {key: {**row, "counts": counts}})

    core.engine.transaction(write)


def _token_of(tx: Writing, caller: Caller) -> tuple[str, Row]:
    for key, row in tx.changing("tokens").items():
        if row.get("kind") == RUN and (row["run_id"], row["fence"]) == (
            caller.run_id,
            caller.fence,
        ):
            return key, row
    raise Unauthorized("The token was revoked.")
