"""The task of a run on a node of the cluster: calls the function and returns how it ended.

Everything that leaves the node is plain data: an exception becomes a failure with a class, and a
result becomes JSON values, so that nothing needs to be pickled that cannot be.
"""

import traceback
from importlib import import_module
from typing import Any

from detent.app.failures import DependencyMissing, Failure
from detent.app.handlers import RayHandler
from detent.app.intent import Intent
from detent.app.ray_run import RayRun
from detent.app.values import storable
from detent.errors import DetentError
from detent.worker import run_outcome
from detent.worker.runners.ray.messages import Ended, TaskSpec
from detent.worker.runners.ray.task_output import SendOutput, TaskOutput


def execute(spec: TaskSpec, write: SendOutput) -> tuple[Ended, dict[str, bytes]]:
    """Call the function of a run; its end and its evidence."""
    files: dict[str, bytes] = {}
    with TaskOutput(write, spec.max_output):
        try:
            handler = _handler(spec.function)
            run = RayRun(
                spec.run_id,
                spec.job_id,
                spec.task_id,
                spec.project,
                spec.attempt,
                spec.fence,
                spec.payload,
                spec.results,
                files,
            )
            value = handler.function(**handler.parameters.decode(spec.payload, run))
            ended = Ended("completed", storable(value, "the result"))
        except BaseException as error:  # also exit(): the process executes other tasks after it
            ended = _failed(error)
    return ended, files


def _failed(error: BaseException) -> Ended:
    if not isinstance(error, DetentError | Failure):
        traceback.print_exception(error)
    error_class, text, exit_code, reset_at = run_outcome.of_exception(error)
    return Ended("failed", None, error_class.value, text, exit_code, reset_at)


def _handler(reference: str) -> RayHandler:
    module_name, _, name = reference.partition(":")
    try:
        found: Any = import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise DependencyMissing(
            f"the Ray node cannot import {reference}: {error}. Install the module and what it "
            'imports on the nodes, or name them in ray={"runtime_env": …}'
        ) from error
    handler = found.handler if isinstance(found, Intent) else None
    if not isinstance(handler, RayHandler):
        raise DependencyMissing(
            f"{reference} is not an intent with the option ray on the Ray node: its module there "
            "differs from the one of the worker"
        )
    return handler
