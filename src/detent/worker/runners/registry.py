"""Runners: makes the runner of each intent from the handler that its app declares, once."""

from collections.abc import Callable
from typing import Any

from detent.app.handlers import (
    AgentHandler,
    CommandHandler,
    FunctionHandler,
    Handler,
    RayHandler,
)
from detent.app.intent import Intent
from detent.kernel.acceptance import is_acceptance
from detent.kernel.variants import has_variants
from detent.operations.run_tokens import issue_run_token
from detent.worker.active_run import HeldJob, Runner
from detent.worker.runners.acceptance.accept_runner import AcceptRunner
from detent.worker.runners.acp.acp_runner import AcpRunner
from detent.worker.runners.agent.agent_runner import AgentRunner
from detent.worker.runners.command_runner import CommandRunner
from detent.worker.runners.function_runner import FunctionRunner
from detent.worker.runners.ray.ray_connection import RayConnection
from detent.worker.runners.ray.ray_runner import RayRunner, connection_of
from detent.worker.runners.variants_runner import VariantsRunner


def runner_for(handler: Handler, ray: Callable[[], RayConnection]) -> Runner:
    """A runner for a handler. A new kind of handler gets a line here."""
    if isinstance(handler, FunctionHandler):
        return FunctionRunner(handler)
    if isinstance(handler, CommandHandler):
        return CommandRunner(handler)
    if isinstance(handler, RayHandler):
        return RayRunner(handler, ray())
    assert isinstance(handler, AgentHandler)
    kind = AcpRunner if handler.agent.protocol == "acp" else AgentRunner
    return kind(handler, issue_run_token)


class Runners:
    """The runners of a worker, by intent."""

    def __init__(self) -> None:
        #: The runner of acceptances, whatever their intent is.
        self.acceptance: Runner = AcceptRunner()
        #: The runner of jobs that create variants.
        self.variants: Runner = VariantsRunner()
        #: The connection to a Ray cluster, once a runner needs it.
        self.ray: RayConnection | None = None
        self._made: dict[str, tuple[Handler, Runner]] = {}

    def for_job(self, held: HeldJob, intent: Intent[..., Any]) -> Runner | None:
        """The runner of a job without a plan."""
        if is_acceptance(held.job):
            return self.acceptance
        if has_variants(held.job) and held.task is not None:
            return self.variants
        return self.of(intent)

    def of(self, intent: Intent[..., Any]) -> Runner | None:
        """The runner of an intent; None if its app declares no handler."""
        handler = intent.handler
        if handler is None:
            return None
        made = self._made.get(intent.name)
        if made is None or made[0] is not handler:
            made = self._made[intent.name] = (
                handler,
                runner_for(handler, lambda: self._ray(intent)),
            )
        return made[1]

    def _ray(self, intent: Intent[..., Any]) -> RayConnection:
        if self.ray is None:
            self.ray = connection_of(intent.app.installation().settings)
        return self.ray

    def close(self) -> None:
        """End the connection to Ray."""
        if self.ray is not None:
            self.ray.close()
