"""Runners: makes the runner of each intent from the handler that its app declares, once."""

from typing import Any

from detent.app.handlers import AgentHandler, CommandHandler, FunctionHandler, Handler
from detent.app.intent import Intent
from detent.operations.run_tokens import issue_run_token
from detent.worker.active_run import Runner
from detent.worker.runners.acceptance.accept_runner import AcceptRunner
from detent.worker.runners.agent.agent_runner import AgentRunner
from detent.worker.runners.command_runner import CommandRunner
from detent.worker.runners.function_runner import FunctionRunner


def runner_for(handler: Handler) -> Runner:
    """A runner for a handler. A new kind of handler gets a line here."""
    if isinstance(handler, FunctionHandler):
        return FunctionRunner(handler)
    if isinstance(handler, CommandHandler):
        return CommandRunner(handler)
    assert isinstance(handler, AgentHandler)
    return AgentRunner(handler, issue_run_token)


class Runners:
    """The runners of a worker, by intent."""

    def __init__(self) -> None:
        #: The runner of acceptances, whatever their intent is.
        self.acceptance: Runner = AcceptRunner()
        self._made: dict[str, tuple[Handler, Runner]] = {}

    def of(self, intent: Intent[..., Any]) -> Runner | None:
        """The runner of an intent; None if its app declares no handler."""
        handler = intent.handler
        if handler is None:
            return None
        made = self._made.get(intent.name)
        if made is None or made[0] is not handler:
            made = self._made[intent.name] = (handler, runner_for(handler))
        return made[1]
