"""Prepares an agent's process: its workspace, environment, argv and prompt.

Creates directories, git worktrees and clones. The environment is an allowlist: it contains no
credentials of detent except a token that is valid only for this run.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from detent import private_files
from detent.allowed_hosts import AllowedHost, allowed_host
from detent.app.agent_config import ENV, Agent, filled, with_placeholders
from detent.app.failures import Failure
from detent.app.program_options import ProgramOptions
from detent.app.retried_calls import retried
from detent.kernel import commands as c
from detent.kernel.budget import dollars
from detent.kernel.retry import FailureClass
from detent.kernel.variants import workspace_owner
from detent.operations.context import Core
from detent.redaction import remember, remember_environment, resolve
from detent.server_file import read_live
from detent.submission.workspace_options import has_branch, is_per_attempt
from detent.worker.active_run import ActiveRun
from detent.worker.git_command import Within, WorkspaceFailed
from detent.worker.runners.agent.agent_files import QUESTION, SUMMARY
from detent.worker.runners.agent.prompt import as_argument, too_long
from detent.worker.runners.agent.provider import is_neutral, provider_environment, provider_of
from detent.worker.runners.agent.reply_file import REPLIES
from detent.worker.runners.command_runner import variables
from detent.worker.runners.program import ProgramSpec
from detent.worker.sandbox import confined
from detent.worker.workspaces import (
    CLONE,
    WORKTREE,
    Workspace,
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

    def __init__(
        self, agent: Agent, run: ActiveRun, token: IssueToken | None, *, in_image: bool = False
    ) -> None:
        self.agent, self.run, self._token = agent, run, token
        #: Whether the agent's program is in an image, not on this machine.
        self.in_image = in_image
        self.core = run.intent.app.installation()
        #: The data directory of the worker that executes the run.
        self.data_dir = run.files.path.parent.parent
        self.workspaces = Workspaces(self.data_dir)
        self.owner = workspace_owner(run.held.job)
        self.provider = provider_of(run, self.core)
        self._git_dirs: dict[Path, Path] = {}
        #: Whether the agent got no URL of a gateway, because none was running.
        self.lacks_gateway = False
        self.chooses_sessions = any(
            "{session_id}" in (each if isinstance(each, tuple) else (each,)) for each in agent.argv
        )

    # -- where -----------------------------------------------------------------------------

    def prepare(self, failed_run: str | None = None) -> None:
        """Create or open the workspace. All runs of the task share it; with `workspace_per` set to
        attempt, the runs until one fails: `failed_run` is the last run of the attempt before."""
        options = self.run.held.job.options
        if has_branch(options):
            repo, plain = self._repo(), self.plain_environment()
            self.workspace: Workspace = self.workspaces.branch_for(
                *(self.owner, repo, self.agent.base, plain, self._within),
                mode=options["workspace"],
                failed_run=failed_run if is_per_attempt(options) else None,
            )
            self.workspace.update_target(plain, self.confined)
        else:
            self.workspace = self.workspaces.directory_for(self.owner)
        self.check_quota()

    def keep_work(self) -> None:
        """Keep the work of a run that has not failed: an attempt after a failure starts with it,
        and the repository has the branch of a clone."""
        workspace, plain = self.workspace, self.plain_environment()
        kept = is_per_attempt(self.run.held.job.options)
        if kept:
            workspace.commit_all(f"Work of {self.owner}", plain, self.confined)
        elif workspace.mode != CLONE:
            return
        head = workspace.head(plain, self.confined)
        workspace.publish(head, plain, self.confined_with(self.repository_dir()))
        if kept:
            self.workspace = workspace.with_good(head)

    def require_branch(self) -> None:
        """Fail if the work is not on this machine: neither its workspace nor its branch."""
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
        project = retried(self._project, self.run.held.expired)
        if isinstance(project, Mapping) and project.get("repo"):
            return Path(str(project["repo"]))
        return repo_from(
            self.agent.repos[0] if len(self.agent.repos) == 1 else None, self.agent.repos
        )

    def _project(self) -> Any:
        with self.core.store.read() as view:
            return view.rows("projects").get(self.run.held.job.project, {})

    def holds(self, session_id: str) -> bool:
        return self.workspaces.holds(self.owner, session_id)

    def program(
        self, argv: Sequence[str], environment: Mapping[str, str], options: ProgramOptions
    ) -> ProgramSpec:
        """The agent's process: it may also reach its provider and the gateway."""
        reached = provider_hosts(self.agent, environment)
        if "DETENT_URL" in environment:
            reached.append(host_of(environment["DETENT_URL"], "DETENT_URL"))
        writable = self._writable(self.workspace)
        return ProgramSpec(argv, self.workspace.work, environment, writable, options, reached)

    def _writable(self, workspace: Workspace) -> list[Path]:
        """Directories outside the workspace that the agent writes to: sessions, a repository."""
        if workspace.mode != WORKTREE or workspace.repo is None:
            return [self.config_dir]
        return [self.config_dir, self._git_dir(Path(workspace.repo))]

    def _git_dir(self, repo: Path) -> Path:
        """The directory of a repository that git writes to; git is asked once in a run."""
        if repo not in self._git_dirs:
            self._git_dirs[repo] = git_dir(repo, self.plain_environment())
        return self._git_dirs[repo]

    def confined(self, argv: Sequence[str]) -> list[str]:
        """The argv of a program that runs in the same sandbox as the agent."""
        return self._within(self.workspace)(argv)

    def confined_with(self, *paths: Path, online: bool = False) -> Within:
        """The same sandbox, which may also write to the paths, or has the machine's network."""
        return self._within(self.workspace, *paths, online=online)

    def _within(self, workspace: Workspace, *more: Path, online: bool = False) -> Within:
        private_files.make_directory(self.config_dir)
        settings, run_dir = self.core.settings, self.run.files.directory()
        also = [*self._writable(workspace), *more]
        shown = [] if workspace.repo is None else [Path(workspace.repo)]
        return lambda argv: confined(
            argv, settings, run_dir, workspace.work, also, shown, online=online
        )

    def _reading(self, repo: Path) -> Within:
        """A sandbox for git that has the repository and no workspace."""
        settings, run_dir = self.core.settings, self.run.files.directory()
        also = [self._git_dir(repo)]
        return lambda argv: confined(argv, settings, run_dir, run_dir, also, [repo])

    def repository_dir(self) -> Path:
        """The directory of the workspace's repository that git writes to."""
        return self._git_dir(Path(self.workspace.repo or ""))

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
        names = (*self.core.settings.worker_environment, *self._inherited())
        made = {name: os.environ[name] for name in names if name in os.environ}
        places = self._places(session_id)
        made |= {name: with_placeholders(text, places) for name, text in agent.variables.items()}
        for name, reference in agent.secrets.items():
            made[name] = resolve(reference, f"agents.{agent.name}.secrets.{name}")
            remember([made[name], json.dumps(made[name])[1:-1]])
        if self.provider is not None:
            made |= provider_environment(self.provider)
        if agent.root_is_sandboxed and os.geteuid() == 0:
            made["IS_SANDBOX"] = "1"
        made = {**self._run_endpoint(), **made, **self._facts(session_id)}
        remember_environment(made)
        return made

    def _inherited(self) -> Sequence[str]:
        """The variables of the worker that the agent gets.

        With a provider it gets no keys and addresses of others: they do not belong together.
        """
        names = self.agent.environment
        return names if self.provider is None else [each for each in names if is_neutral(each)]

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
        self.lacks_gateway = url is None
        if self._token is None or url is None:
            return {}
        issue = partial(self._token, self.core, self.run.held.grant, self.run.run_id)
        token = retried(issue, self.run.held.expired)
        remember([token])
        return {"DETENT_URL": url, "DETENT_TOKEN": token}

    @property
    def model(self) -> str | None:
        """The model of the provider, else that of the agent; None if the agent chooses it."""
        return (self.provider and self.provider.model) or self.agent.model

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
            "model": self.model,
            "max_turns": None if agent.max_turns is None else str(agent.max_turns),
            "args": agent.args,
        }
        made = filled(agent.argv, values)
        if not self.in_image:
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


def provider_hosts(agent: Agent, environment: Mapping[str, str]) -> list[AllowedHost]:
    """The hosts of an agent's provider; `env:NAME` is the host of the URL in that variable."""
    where, found = f"agents.{agent.name}.hosts", []
    for each in agent.hosts:
        if not each.startswith(ENV):
            found.append(allowed_host(each, where))
        elif url := environment.get(each.removeprefix(ENV)):
            found.append(host_of(url, each.removeprefix(ENV)))
    return found


def host_of(url: str, where: str) -> AllowedHost:
    """The entry that allows the host and the port of a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return allowed_host(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", where)


def _announced(data_dir: Path) -> str | None:
    """The gateway of this data directory, if it is alive."""
    server = read_live(data_dir)
    return None if server is None else str(server["url"])
