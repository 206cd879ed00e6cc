"""Executes git for workspaces, so that a repository cannot make it start programs on our behalf."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from detent.app.failures import Failure
from detent.kernel.retry import FailureClass
from detent.settings import Settings
from detent.worker.program_priority import ProgramPriority

GIT_S = 120.0
#: How much lower the priority of git is than that of the worker: twenty runs may start together. It
#: is that of programs: below them, git would reach its time limit while agents use the CPU.
NICE = Settings().worker_nice
#: Maps a program's argv to the argv that starts it in the sandbox.
Within = Callable[[Sequence[str]], list[str]]
#: What a repository could make git run on our behalf: hooks, monitors, programs for signatures.
HARMLESS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.pager=cat"),
    *("-c", "core.editor=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "log.showSignature=false"),
    *("-c", "advice.graftFileDeprecated=false"),  # about GIT_GRAFT_FILE below, in each error
    *(word for each in ("", "ssh.", "x509.") for word in ("-c", f"gpg.{each}program=false")),
)
#: Objects, and the parents of commits, as they are: nothing is replaced or fetched.
FIXED = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
#: For a command that needs no remote. Versions of git that fetch missing objects whatever
#: GIT_NO_LAZY_FETCH says have no transport for that.
OFFLINE_OPTIONS = ("-c", "credential.helper=")
OFFLINE = {"GIT_ALLOW_PROTOCOL": ""}
LOCAL = {"GIT_ALLOW_PROTOCOL": "file"}
#: The author of the commits that detent makes.
AUTHOR = {
    f"GIT_{role}_{name}": text
    for role in ("AUTHOR", "COMMITTER")
    for name, text in (("NAME", "detent"), ("EMAIL", "detent@localhost"))
}


class WorkspaceFailed(Failure):
    """The workspace cannot be used as it is: a person must check it."""

    kind = FailureClass.NEEDS_USER


def git(
    where: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    within: Within = list,
    *,
    local: bool = False,
) -> bytes:
    """The output of git; hooks and monitors of the repository are not executed."""
    done = git_result(where, arguments, environment, within, local=local)
    if done.returncode != 0:
        raise WorkspaceFailed(f"git {arguments[0]} failed in {where}: {error_text(done)}")
    return done.stdout


def git_result(
    where: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    within: Within = list,
    *,
    remote: bool = False,
    local: bool = False,
) -> "subprocess.CompletedProcess[bytes]":
    """How git ended; hooks and monitors of the repository are not executed.

    Only with `remote` may git connect to a remote; with `local`, to a repository of this machine.
    """
    transports = {} if remote else LOCAL if local else OFFLINE
    options = HARMLESS if remote else (*HARMLESS, *OFFLINE_OPTIONS)
    argv = within(["git", *options, "-C", str(where), *arguments])
    try:
        return _finished(argv, {**environment, **FIXED, **transports})
    except FileNotFoundError:
        raise WorkspaceFailed(
            "a workspace with a branch needs git, which is not installed here"
        ) from None
    except subprocess.TimeoutExpired:
        raise WorkspaceFailed(f"git {arguments[0]} took longer than {GIT_S:.0f} s") from None


def _finished(
    argv: Sequence[str], environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[bytes]":
    """Run it in a session of its own, at a low priority; end all of it if it is late."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env=dict(environment),
        start_new_session=True,
    ) as process:
        ProgramPriority(process.pid, NICE).lower()
        try:
            output, errors = process.communicate(timeout=GIT_S)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, output, errors)


def error_text(done: "subprocess.CompletedProcess[bytes]") -> str:
    """The end of what git has written about an error."""
    return done.stderr.decode("utf-8", "replace").strip()[-500:]
