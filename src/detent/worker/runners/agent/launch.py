"""Prepares an agent's process: its workspace, environment, argv and prompt.

Creates directories and git worktrees. The environment is an allowlist: it contains no credentials
of detent except a token that is valid only for this run.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from detent import private_files
from detent.app.agent_config import Agent, filled, with_places
from detent.app.failures import Failure
from detent.kernel import commands as c
from detent.kernel.budget import dollars
from detent.kernel.retry import FailureClass
from detent.operations.context import Core
from detent.redaction import remember, remember_environment, resolve
from detent.server_file import read_live
from detent.worker.active_run import ActiveRun
from detent.worker.runners.agent.agent_files import QUESTION, SUMMARY
from detent.worker.runners.agent.prompt import as_argument, too_long
from detent.worker.runners.agent.reply_file import REPLIES
from detent.worker.runners.command_runner import variables
from detent.worker.sandbox import confined
from detent.worker.workspaces import (
    DIRECTORY,
    WORKTREE,
    Within,
    Workspace,
    WorkspaceFailed,
    Workspaces,
    branch_of,
    git_dir,
    is_known,
    repo_from,
)

#: A token for one run under one claim.
IssueToken = Callable[[Core, c.Grant, str], str]
PROMPT = "prompt.md"
#: The environment variables that git gets.
PLAIN = ("HOME", "PATH", "LANG")


class Setting:
    """The workspace, environment and argv of one run's process."""

    def __init__(self, agent: Agent, run: ActiveRun, token: IssueToken | None) -> None:
        self.agent, self.run, self._token = agent, run, token
        self.core = run.intent.app.installation()
        #: The data directory of the worker that executes the run.
        self.data_dir = run.files.path.parent.parent
        self.workspaces = Workspaces(self.data_dir)
        job = run.held.job
        self.owner = job.task_id or job.id
        self.chooses_sessions = any(
            "{session_id}" in (each if isinstance(each, tuple) else (each,)) for each in agent.argv
        )

    # -- where -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Create or open the workspace; all runs of the task share it."""
        mode = self.run.held.job.options.get("workspace", DIRECTORY)
        if mode == WORKTREE:
            repo, plain = self._repo(), self.plain_environment()
            self.workspace: Workspace = self.workspaces.worktree_for(
                self.owner, repo, self.agent.base, plain, self._within
            )
        else:
            self.workspace = self.workspaces.directory_for(self.owner)
        self.check_quota()

    def require_branch(self) -> None:
        """Fail if the work is not on this machine: neither its worktree nor its branch."""
        branch, repo, plain = branch_of(self.owner), self._repo(), self.plain_environment()
        if self.workspaces.find(self.owner) is None and not is_known(
            repo, f"refs/heads/{branch}", plain, self._reading(repo)
        ):
            raise WorkspaceFailed(
                f"the repository on this worker has no branch {branch}: the work is on another "
                "machine. Start a worker there, then accept it again."
            )

    def _repo(self) -> Path:
        """The payload's repository, if allowed; the project's; or the only configured one."""
        payload = self.run.payload
        named = payload.get("repo") if isinstance(payload, Mapping) else None
        if named is not None:
            return repo_from(named, self.agent.repos)
        with self.core.store.read() as view:
            project = view.rows("projects").get(self.run.held.job.project, {})
        if isinstance(project, Mapping) and project.get("repo"):
            return Path(str(project["repo"]))
        return repo_from(
            self.agent.repos[0] if len(self.agent.repos) == 1 else None, self.agent.repos
        )

    def holds(self, session_id: str) -> bool:
        return self.workspaces.holds(self.owner, session_id)

    def writable(self) -> list[Path]:
        """Directories outside the workspace that the agent writes to: sessions, a repository."""
        return self._writable(self.workspace)

    def _writable(self, workspace: Workspace) -> list[Path]:
        git_dir = workspace.git_dir(self.plain_environment())
        return [self.config_dir, *([] if git_dir is None else [git_dir])]

    def confined(self, argv: Sequence[str]) -> list[str]:
        """The argv of a program that runs in the same sandbox as the agent."""
        return self._within(self.workspace)(argv)

    def confined_with(self, path: Path) -> Within:
        """The same sandbox, which may also write to `path`."""
        return self._within(self.workspace, path)

    def _within(self, workspace: Workspace, *more: Path) -> Within:
        private_files.make_directory(self.config_dir)
        settings, run_dir = self.core.settings, self.run.files.directory()
        also = [*self._writable(workspace), *more]
        shown = [] if workspace.repo is None else [Path(workspace.repo)]
        return lambda argv: confined(argv, settings, run_dir, workspace.work, also, shown)

    def _reading(self, repo: Path) -> Within:
        """A sandbox for git that has the repository and no worktree."""
        settings, run_dir = self.core.settings, self.run.files.directory()
        also = [git_dir(repo, self.plain_environment())]
        return lambda argv: confined(argv, settings, run_dir, run_dir, also, [repo])

    @property
    def config_dir(self) -> Path:
        return self.data_dir / "agents" / self.agent.name

    def check_quota(self) -> None:
        self.workspace.check_quota(self.agent.quota_bytes)

    # -- environment -----------------------------------------------------------------------

    def plain_environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in PLAIN if name in os.environ}

    def environment(self, session_id: str) -> dict[str, str]:
        """The allowlist, configured variables, secrets, and variables that describe the run."""
        agent = self.agent
        names = (*self.core.settings.worker_environment, *agent.environment)
        made = {name: os.environ[name] for name in names if name in os.environ}
        places = self._places(session_id)
        made |= {name: with_places(text, places) for name, text in agent.variables.items()}
        for name, reference in agent.secrets.items():
            made[name] = resolve(reference, f"agents.{agent.name}.secrets.{name}")
            remember([made[name], json.dumps(made[name])[1:-1]])
        if agent.root_is_sandboxed and os.geteuid() == 0:
            made["IS_SANDBOX"] = "1"
        made = {**self._run_endpoint(), **made, **self._facts(session_id)}
        remember_environment(made)
        return made

    def _facts(self, session_id: str) -> dict[str, str]:
        files = self.run.files
        return {
            **variables(self.run, str(self.workspace.work)),
            "DETENT_QUESTION_FILE": str(files.path / QUESTION),
            "DETENT_SUMMARY_FILE": str(files.path / SUMMARY),
            "DETENT_REPLIES_FILE": str(files.path / REPLIES),
            "DETENT_SESSION_ID": session_id,
            "TMPDIR": str(files.directory("tmp")),
        }

    def _run_endpoint(self) -> dict[str, str]:
        """The URL of the gateway and a token for this run; empty if either is missing."""
        url = _announced(self.data_dir)
        if self._token is None or url is None:
            return {}
        token = self._token(self.core, self.run.held.grant, self.run.run_id)
        remember([token])
        return {"DETENT_URL": url, "DETENT_TOKEN": token}

    # -- argv ------------------------------------------------------------------------------

    def _places(self, session_id: str) -> dict[str, str | Sequence[str] | None]:
        private_files.make_directory(self.config_dir)
        return {
            "session_id": session_id,
            "directory": str(self.workspace.work),
            "run_dir": str(self.run.files.directory()),
            "config_dir": str(self.config_dir),
        }

    def argv(self, prompt: str, session_id: str, budget: int | None, *, resumed: bool) -> list[str]:
        """The agent's argv for this run."""
        agent, files = self.agent, self.run.files
        file = files.put(PROMPT, prompt)
        files.put("payload.json", json.dumps(self.run.payload))
        argument = as_argument(prompt)
        if too_long(argument):
            argument = f"Read the file {file} and do what it says."
        values = self._places(session_id) | {
            "prompt": argument,
            "prompt_file": str(file),
            "session_id": None if resumed else session_id,
            "resume_id": session_id if resumed else None,
            "budget": None if budget is None else dollars(budget),
            "model": agent.model,
            "max_turns": None if agent.max_turns is None else str(agent.max_turns),
            "args": agent.args,
        }
        made = filled(agent.argv, values)
        self._check_program(made[0])
        return made

    def _check_program(self, program: str) -> None:
        path = os.environ.get("PATH") if "PATH" in self.core.settings.worker_environment else None
        if shutil.which(program, path=path) is None:
            raise Failure(
                f"the agent {self.agent.name} cannot be started: there is no program {program!r} "
                f"here. Install it on this worker, or set agents.{self.agent.name}.argv; "
                "then retry.",
                error_class=FailureClass.NEEDS_USER,
            )


def _announced(data_dir: Path) -> str | None:
    """The gateway of this data directory, if it is alive."""
    server = read_live(data_dir)
    return None if server is None else str(server["url"])
