"""The command runner: starts an argv list, never a shell, and ends its whole process group.

The argv comes from the operator. A payload's field can only be a whole element of it,
`{payload.path}`. A value that begins with `-` could be read as an option: it is refused unless it
follows a literal `--`. Exit code 0 is success. The environment is an allowlist, and
`variables`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from detent.app.failures import Failure
from detent.app.handlers import PAYLOAD_FIELD, CommandHandler
from detent.app.run_interface import Stop
from detent.errors import DetentError, Invalid
from detent.kernel import commands as c
from detent.redaction import redact, remember_environment, resolve
from detent.trace_propagation import VARIABLE
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.run_files import EVIDENCE, RESULT, WORK, Kept
from detent.worker.runners.follower import Follower, follow
from detent.worker.runners.program import ProgramSpec


class CommandRunner:
    """Runs one command for each run of its intent."""

    asynchronous = False
    stoppable = True

    def __init__(self, handler: CommandHandler) -> None:
        self.argv = handler.argv
        self.environment = handler.environment
        self.directory = handler.directory
        self.secrets, self.program = handler.secrets, handler.program

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        grant, run_id = run.held.grant, run.run_id
        try:
            argv = filled(self.argv, run.payload)
            code, failure = self._follow(argv, run)
            report_evidence(run, client)
            result = run.files.result() if failure is None else None
        except Failure as error:
            found = run_outcome.Failed(error.error_class, redact(str(error)))
            return run_outcome.failed(grant, run_id, found)
        except (DetentError, OSError, ValueError) as error:
            return run_outcome.failed(grant, run_id, run_outcome.of_exception(error))
        if failure is not None:
            return run_outcome.failed(grant, run_id, failure)
        return run_outcome.completed(grant, run_id, result, code)

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        return await client.run_blocking(lambda: self.execute(run, client))

    def _follow(self, argv: list[str], run: ActiveRun) -> tuple[int, run_outcome.Failed | None]:
        """Start the command and wait until it and all its children have ended."""
        run.files.put("payload.json", json.dumps(run.payload))
        code, followed = follow(self._spec(argv, run), run, Follower)
        exceeded, tail = followed.exceeded, followed.tail()
        if exceeded is not None:
            return code, exceeded.failed(run.intent.name, code, tail)
        reasons = "\n".join([*followed.program.refusals(), tail])
        return code, run_outcome.of_exit_code(code, reasons)

    def _spec(self, argv: list[str], run: ActiveRun) -> ProgramSpec:
        settings = run.intent.app.installation().settings
        names = settings.worker_environment if self.environment is None else self.environment
        allowed = {name: os.environ[name] for name in names if name in os.environ}
        for name, reference in self.secrets.items():
            allowed[name] = resolve(reference, f"secrets.{name} of intent {run.intent.name}")
        remember_environment(allowed)
        return ProgramSpec(
            argv,
            Path(self.directory) if self.directory else run.files.directory(WORK),
            {**allowed, **variables(run, self.directory)},
            options=self.program,
            joins_errors=True,
        )


def variables(run: ActiveRun, directory: str | None) -> dict[str, str]:
    """The environment variables that describe the run to its command."""
    held, files = run.held, run.files
    found = {
        "DETENT_RUN_ID": run.run_id,
        "DETENT_JOB_ID": held.job.id,
        "DETENT_TASK_ID": held.job.task_id or "",
        "DETENT_FENCE": str(held.grant.fence),
        "DETENT_ATTEMPT": str(run.attempt),
        "DETENT_RUN_DIR": files.directory(),
        "DETENT_EVIDENCE_DIR": files.directory(EVIDENCE),
        "DETENT_PAYLOAD_FILE": files.path / "payload.json",
        "DETENT_RESULT_FILE": files.path / RESULT,
        "DETENT_PROJECT": held.job.project,
        "DETENT_PROJECT_DIR": directory or Path.cwd(),
        "DETENT_RESOURCE": run.resource or "",
    }
    if run.traceparent is not None:
        found[VARIABLE] = run.traceparent
    return {name: str(value) for name, value in found.items()}


def keeps_evidence(run: ActiveRun) -> bool:
    """Whether the evidence of the run is stored: unless it was lost or continues elsewhere."""
    return run.stopped not in (Stop.LOST, Stop.HAND_BACK)


def report_evidence(run: ActiveRun, client: EngineClient, first: Sequence[Kept] = ()) -> None:
    """Report the given evidence, then the other files that the run has left."""
    if not keeps_evidence(run):
        return
    known = {kept.file for kept in first}
    others = (kept for kept in run.files.collect() if kept.file not in known)
    for kept in chain(first, others):
        if not keeps_evidence(run):
            return
        client.execute(
            c.AddEvidence(run.held.grant, run.run_id, *kept), lease_over=run.held.expired
        )


# ---- argv ----------------------------------------------------------------------------------


def filled(argv: Sequence[str], payload: Any) -> list[str]:
    """The argv with the payload's values in their places."""
    made: list[str] = []
    for each in argv:
        made.append(_value(each, payload, "--" in made) if PAYLOAD_FIELD.fullmatch(each) else each)
    return made


def _value(place: str, payload: Any, after_options: bool) -> str:
    path = place[1:-1]
    value = payload
    for name in path.split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        message = f"{path} is missing: the command requires it."
        raise Invalid(message, field=path, hint="Submit the task again with this field.")
    if isinstance(value, Mapping | list):
        message = f"{path} must be a string or a number, because it is an argument of the command."
        raise Invalid(message, field=path, given=value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\0" in text:
        raise Invalid(f"{path} must not contain a NUL character.", field=path)
    if text.startswith("-") and not after_options:
        raise Invalid(
            f"{path} begins with '-' and could be read as an option. Put '--' before it in the "
            "command.",
            field=path,
            given=text,
        )
    return text
