"""The accept runner: carries out the action of a person who has accepted the work of an agent.

The action is a durable effect: its begin and its end are recorded. After a crash, the repository
shows whether it happened.
"""

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detent import failpoints, private_files
from detent.app.agent_config import Agent
from detent.app.failures import Failure
from detent.app.handlers import AgentHandler
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.acceptance import ACCEPTANCE, OnAccept, conflicts_in
from detent.kernel.entities import Checkpoint
from detent.operations.reviewed_diff import diffs_of_task
from detent.redaction import redact
from detent.store.types import Query
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.git_command import WorkspaceFailed
from detent.worker.runners.acceptance.branch_merge import merge
from detent.worker.runners.acceptance.branch_push import push
from detent.worker.runners.acceptance.task_branch import NOTHING, TaskBranch, Verdict
from detent.worker.runners.agent.agent_process import execute_while_held
from detent.worker.runners.agent.launch import Setting

LOCKS = "locks"
LOCK_POLL_S = 0.1


class AcceptRunner:
    """Executes the runs of acceptances, whatever their intent is."""

    asynchronous = False
    #: Each git command has a time limit.
    stoppable = True

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        try:
            result = Acceptance(run, client).carry_out()
        except Failure as failure:
            failed = run_outcome.Failed(failure.error_class, redact(str(failure)))
        except (DetentError, OSError, ValueError) as error:
            failed = run_outcome.of_exception(error)
        else:
            return run_outcome.completed(run.held.grant, run.run_id, result)
        return run_outcome.failed(run.held.grant, run.run_id, failed)

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        return await client.run_blocking(lambda: self.execute(run, client))


class Acceptance:
    """Carries out one action."""

    def __init__(self, run: ActiveRun, client: EngineClient) -> None:
        self.run, self.client = run, client
        self.given: Mapping[str, Any] = run.held.job.options[ACCEPTANCE]
        self.action = OnAccept(self.given["action"])

    def carry_out(self) -> dict[str, Any]:
        """Carry out the action and return the result of the job."""
        known = self._recorded()
        if known is not None and known.done:
            return dict(known.value)
        setting = Setting(self._agent(), self.run, None)
        setting.require_branch()
        setting.prepare()
        verdict = self._verdict()
        with _locked(setting.data_dir / LOCKS, setting.workspace.repo or "", self.run):
            if known is None:
                self._execute(c.BeginEffect(self.run.held.grant, self.action, "reconcile"))
            failpoints.hit("effect.begun")
            result = self._act(TaskBranch(setting, verdict))
        if not conflicts_in(result):
            failpoints.hit("effect.done")
            self._execute(c.RecordCheckpoint(self.run.held.grant, self.action, result))
        return result

    def _act(self, branch: TaskBranch) -> dict[str, Any]:
        options = self.run.held.job.options
        target = options.get("target_branch")
        if self.action is OnAccept.MERGE:
            return merge(branch, target)
        return push(branch, options.get("push_remote"), target)

    def _execute(self, command: c.Report) -> None:
        execute_while_held(self.client, self.run, command)

    def _recorded(self) -> Checkpoint | None:
        """What an earlier run of the job has recorded about the action."""
        found = self.client.query(
            lambda view: list(view.job_checkpoints(self.run.held.job.id)), self.run.held.expired
        )
        return next((each for each in found if each.name == self.action), None)

    def _agent(self) -> Agent:
        handler = self.run.intent.handler
        if not isinstance(handler, AgentHandler):
            raise Failure(
                f"on_accept is {self.action}, but the intent {self.run.intent.name} has no agent "
                "in this worker, so its work has no branch"
            )
        return handler.agent

    def _verdict(self) -> Verdict:
        job, task = self.run.held.job, self.run.held.task
        assert task is not None, "only a task is accepted"
        query = Query("tasks", {"id": task.id}, limit=1)
        diffs, (row,) = self.client.query(
            lambda view: (diffs_of_task(view, task), view.page(query)), self.run.held.expired
        )
        reviewed = diffs[-1].sha256 if diffs else NOTHING
        named = self.given.get("diff")
        if named not in (None, reviewed):
            raise WorkspaceFailed(
                f"the diff {str(named)[:12]} was accepted, but the diff under review is "
                f"{reviewed[:12]}. Review that one."
            )
        title, by = str(row["title"] or task.intent), str(self.given["by"])
        at_s = job.created_at // 1_000_000
        return Verdict(job.id, task.id, title, by, self.given.get("comment"), at_s, reviewed)


@contextlib.contextmanager
def _locked(locks: Path, repo: str, run: ActiveRun) -> Iterator[None]:
    """Hold the lock of a repository: one acceptance at a time changes its branches.

    A run that must stop does not wait for it any longer.
    """
    private_files.make_directory(locks)
    path = locks / f"{hashlib.sha256(repo.encode()).hexdigest()[:32]}.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, private_files.MODE)
    try:
        while not _taken(descriptor):
            run.require_lease()
            time.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
