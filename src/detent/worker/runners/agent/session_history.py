"""The history of an agent's task before a run, from the log: its session, its cost, its answers.

Reads only. A task's runs share a session over all its jobs; a step of a declared plan, or a job
alone, has its own.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from detent.kernel.acceptance import ACCEPTANCE
from detent.kernel.entities import Task
from detent.kernel.events import may_count_round
from detent.kernel.evolve.step import UNCOUNTED
from detent.kernel.variants import VARIANTS, chosen_of
from detent.kernel.wait_kinds import PERMISSION
from detent.operations.comment_threads import Thread
from detent.store.log_walk import events_of
from detent.store.port import ReadTransaction
from detent.store.types import LoggedEvent, Query
from detent.worker.active_run import ActiveRun

MAX_RUNS = 1_000
#: The kinds of moments that a reviewer causes.
REVIEWS = ("rejection", "comment")


class Moment(NamedTuple):
    """One event that the agent must be informed about; `prompt` has the text for each kind."""

    kind: str
    text: str = ""
    value: Any = None


class Past(NamedTuple):
    """The history from which a run continues."""

    #: The session to continue, and the cost of its earlier runs in micro-dollars.
    session_id: str | None
    cost: int
    #: The moments since the agent's last run, and all moments.
    news: tuple[Moment, ...]
    moments: tuple[Moment, ...]
    title: str = ""
    #: What reviewers did since the beginning of the last run that ended well: a run that was
    #: killed may not have read it.
    reviews: tuple[Moment, ...] = ()
    #: The open comments on the work.
    comments: tuple[Thread, ...] = ()
    #: The tokens of the session's earlier runs, by the name of the fact.
    tokens: Mapping[str, int] = MappingProxyType({})
    #: The last run that was not interrupted, if it failed. None for a plan step: other steps may be
    #: running in the same workspace.
    failed_run: str | None = None

    def latest(self, kind: str) -> Moment | None:
        """The latest moment of a kind."""
        return next((each for each in reversed(self.news) if each.kind == kind), None)


def past_of(view: ReadTransaction, run: ActiveRun) -> Past:
    """Read the history for a run that is about to start."""
    task, job = run.held.task, run.held.job
    step = None if run.step is None else run.step.name
    jobs = [job.id]
    if task is not None and run.whole_job:
        chosen = chosen_of(job.options)
        tasks = [task.id] if chosen is None else [chosen["task_id"], task.id]
        rows = view.page(Query("jobs", {"task_id": tasks}, "created_at", limit=MAX_RUNS))
        jobs = [row["id"] for row in rows if not {ACCEPTANCE, VARIANTS} & row["options"].keys()]
    runs = [row for row in _runs(view, jobs, step) if row["id"] != run.run_id]
    session_id = _session(view, run, runs)
    same = [run for run in runs if session_id is not None and run["session_id"] == session_id]
    cost = sum(run["cost"] for run in same)
    tokens = {name: sum(run[name] for run in same) for name in ("tokens_in", "tokens_out")}
    moments = _Moments(run.run_id, step)
    streams = [*jobs, *([task.id] if task is not None and run.whole_job else [])]
    for logged in sorted(event for stream in streams for event in events_of(view, stream)):
        moments.read(logged)
    known = (session_id, cost, *moments.all(), _title(view, task))
    failed = _failed(runs) if run.whole_job else None
    return Past(*known, moments.reviews(), tokens=tokens, failed_run=failed)


def _runs(view: ReadTransaction, jobs: Sequence[str], step: str | None) -> list[Mapping[str, Any]]:
    query = Query("runs", {"job_id": jobs, "step": step}, "queued_at", limit=MAX_RUNS)
    return list(view.page(query))


def _session(
    view: ReadTransaction, run: ActiveRun, runs: Sequence[Mapping[str, Any]]
) -> str | None:
    task = run.held.task
    if task is not None and run.whole_job:
        # An earlier run under the same claim may have opened it.
        return next((each.session_id for each, _ in view.tasks([task.id])), None)
    last = next((run for run in reversed(runs) if run["session_id"]), None)
    if last is None or _run_again(run, runs[-1]):
        return None
    return str(last["session_id"])


def _run_again(run: ActiveRun, last: Mapping[str, Any]) -> bool:
    """Whether a person has retried it after a failure, which resets the counts."""
    failed = last["state"] in ("failed", "timeout") and last["error_class"] != "rate_limit"
    return failed and run.attempt == 1


def _failed(runs: Sequence[Mapping[str, Any]]) -> str | None:
    """The last run, if it failed. A run that was cancelled, lost its worker or reached a rate limit
    is left out: the work continues where it stopped."""
    for run in reversed(runs):
        if run["state"] == "cancelled" or run["error_class"] in UNCOUNTED:
            continue
        return str(run["id"]) if run["state"] in ("failed", "timeout") else None
    return None


def _title(view: ReadTransaction, task: Task | None) -> str:
    rows = view.page(Query("tasks", {"id": task.id}, limit=1)) if task is not None else ()
    return str(rows[0]["title"]) if rows else ""


class _Moments:
    """Reads the log up to the run, and collects the moments for the agent."""

    def __init__(self, run_id: str, step: str | None) -> None:
        self.run_id, self.step = run_id, step
        self.moments: list[Moment] = []
        self.news_from = 0
        self.over = False
        #: By run, how many moments there were when it was queued; and at the last good end.
        self._runs: dict[str, int] = {}
        self._read_up_to = 0
        self._open: dict[str, Mapping[str, Any]] = {}

    def all(self) -> tuple[tuple[Moment, ...], tuple[Moment, ...]]:
        return tuple(self.moments[self.news_from :]), tuple(self.moments)

    def reviews(self) -> tuple[Moment, ...]:
        return tuple(each for each in self.moments[self._read_up_to :] if each.kind in REVIEWS)

    def read(self, logged: LoggedEvent) -> None:
        act = READERS.get(logged.name) or (_declared if may_count_round(logged.name) else None)
        if act is not None and not self.over and logged.data:
            act(self, logged.subject or "", msgspec.json.decode(logged.data))

    def run_queued(self, run_id: str, data: Mapping[str, Any]) -> None:
        if run_id == self.run_id:
            self.over = True
        elif data.get("step") == self.step:
            self._runs[run_id] = len(self.moments)
            self.news_from = len(self.moments)

    def succeeded(self, run_id: str) -> None:
        """The run has read what happened before it, also if it asks a question now."""
        self._read_up_to = self._runs.get(run_id, self._read_up_to)

    def ended(self, kind: str, run_id: str, text: str) -> None:
        if run_id in self._runs:
            self.moments.append(Moment(kind, text))

    def wait_begun(self, name: str, data: Mapping[str, Any]) -> None:
        """A request for permission is skipped: the session has it, with the answer."""
        if data.get("step") == self.step and data["kind"] != PERMISSION:
            self._open[name] = data

    def wait_over(self, name: str, data: Mapping[str, Any]) -> None:
        begun = self._open.pop(name, None)
        if begun is not None:
            detail = {**begun.get("detail", {}), "outcome": data["outcome"]}
            value = {**detail, "answer": data.get("value")}
            self.moments.append(Moment(begun["kind"], str(detail.get("text", "")), value))

    def rejected(self, data: Mapping[str, Any]) -> None:
        self.moments.append(Moment("rejection", data.get("comment") or ""))

    def commented(self, data: Mapping[str, Any]) -> None:
        """A person has commented on a line, or replied to a comment."""
        if data.get("reply_id") is None or data["run_id"] is None:
            self.moments.append(Moment("comment"))

    def begun_again(self) -> None:
        """A person starts it from the beginning; a reviewer's comment still applies."""
        self.moments = [each for each in self.moments if each.kind in REVIEWS]
        self.news_from = self._read_up_to = 0


def _declared(moments: _Moments, _: str, data: Mapping[str, Any]) -> None:
    """An event that the document of the lifecycle declares: a rejection if it counts a round, or if
    it sends the agent back to work with a comment."""
    if data.get("round") is not None or (data.get("job_id") and data.get("comment")):
        moments.rejected(data)


READERS: Mapping[str, Callable[[_Moments, str, Mapping[str, Any]], None]] = {
    "run_queued": lambda moments, name, data: moments.run_queued(name, data),
    "run_succeeded": lambda moments, name, _: moments.succeeded(name),
    "run_timed_out": lambda moments, name, data: moments.ended("timeout", name, data["error"]),
    "run_failed": lambda moments, name, data: moments.ended("failure", name, data["error"]),
    "run_cancelled": lambda moments, name, data: moments.ended(
        "interruption", name, data["reason"]
    ),
    "wait_begun": lambda moments, name, data: moments.wait_begun(name, data),
    "wait_completed": lambda moments, _, data: moments.wait_over(data["wait"], data),
    "wait_ended": lambda moments, name, data: moments.wait_over(name, data),
    "task_rejected": lambda moments, _, data: moments.rejected(data),
    "comment_added": lambda moments, _, data: moments.commented(data),
    "comment_replied": lambda moments, _, data: moments.commented(data),
    "task_retried": lambda moments, _name, _data: moments.begun_again(),
}
