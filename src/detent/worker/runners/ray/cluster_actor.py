"""The actor of detent on a Ray cluster: Submissions, with Ray's tasks. Imports Ray.

It is detached: it and its tasks outlive the driver that made it. It runs on the head node, so that
the death of another node does not end it.
"""

import asyncio
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from detent.worker.runners.ray import node_task
from detent.worker.runners.ray.messages import Ended, TaskSpec
from detent.worker.runners.ray.submissions import Launched, Submissions

#: The actor's name contains the version of its methods and messages.
NAME, NAMESPACE = "detent-submissions-1", "detent"
SWEEP_S = 5.0
#: More calls than tasks can wait for their output to be read.
CALLS = 20_000
LONGEST_ERROR = 1_500


def _execute(spec: TaskSpec, submissions: Any) -> tuple[tuple[Any, ...], dict[str, bytes]]:
    def write(output: bytes, is_cut: bool) -> None:
        ray.get(submissions.write.remote(spec.key, output, is_cut))

    submissions.started.remote(spec.key)
    ended, files = node_task.execute(spec, write)
    return tuple(ended), files


class SubmissionsActor(Submissions):
    """Submissions whose tasks are executed by Ray."""

    def __init__(self, orphan_s: float, keep_s: float) -> None:
        super().__init__(self._launch, orphan_s=orphan_s, keep_s=keep_s)
        self._execute: Any = ray.remote(_execute)
        self._sweeper: asyncio.Task[None] | None = None

    async def check(self) -> str:
        """Answer when the actor is ready; start its sweeper."""
        if self._sweeper is None:
            self._sweeper = asyncio.ensure_future(self._sweep_forever())
        return ray.__version__

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def _launch(self, spec: TaskSpec, options: dict[str, Any]) -> Launched:
        own = ray.get_runtime_context().current_actor
        # Ray does not retry: retries are detent's.
        task = self._execute.options(name=spec.key, num_returns=2, max_retries=0, **options)
        ended, evidence = task.remote(spec, own)
        return Launched(_end_of(ended), evidence, lambda: ray.cancel(ended, force=True))


async def _end_of(ended: Any) -> Ended:
    try:
        return Ended(*(await ended))
    except TaskCancelledError:
        return Ended("cancelled")
    except RayTaskError as error:
        text = f"the Ray task failed outside of the function: {_text(error)}"
        return Ended("failed", None, "error", text)
    except RayError as error:
        return _lost(error)
    except Exception as error:  # what Ray cannot deserialise
        return Ended("failed", None, "error", f"the end of the Ray task is unreadable: {error!r}")


def _lost(error: RayError) -> Ended:
    """The end of a task whose node, process or environment failed."""
    kind = type(error).__name__
    text = f"{kind}: {_text(error)}"
    if kind == "OutOfMemoryError":
        return Ended("failed", None, "resource_limit", text)
    if kind in ("RuntimeEnvSetupError", "TaskUnschedulableError"):
        return Ended("failed", None, "dependency", text)
    return Ended("lost", None, "lost", f"Ray lost the task, {text}")


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())[:LONGEST_ERROR]


def submissions(orphan_s: float, keep_s: float) -> Any:
    """The handle of the cluster's actor, which is made if it does not exist."""
    kind = ray.remote(SubmissionsActor)
    return kind.options(
        name=NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        resources={"node:__internal_head__": 0.001},
        max_restarts=-1,
        max_concurrency=CALLS,
    ).remote(orphan_s, keep_s)
