"""The ACP runner: executes a run with an agent that speaks the Agent Client Protocol.

It differs from the agent runner in one thing: a conversation on the standard input and output of
the process replaces the lines that the agent prints. The extra `acp` is loaded at the first run.
"""

from dataclasses import replace

from detent.app.failures import Failure
from detent.kernel.retry import FailureClass
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.runners.acp.permission_request import PermissionRequests
from detent.worker.runners.agent.agent_process import AgentFollower
from detent.worker.runners.agent.agent_runner import AgentRun, AgentRunner, AgentStart
from detent.worker.runners.agent.output_parser import Reader
from detent.worker.runners.follower import follow
from detent.worker.runners.process_group import Group
from detent.worker.runners.program import Program


class AcpRunner(AgentRunner):
    """Runs one ACP agent for each run of its intent."""

    def begin(self, run: ActiveRun, client: EngineClient) -> AgentRun:
        return AcpRun(self, run, client)


class AcpRun(AgentRun):
    """Executes one run with an ACP agent."""

    def __init__(self, runner: AgentRunner, run: ActiveRun, client: EngineClient) -> None:
        super().__init__(runner, run, client)
        self.requests = PermissionRequests(self.agent, run, client)

    def follow(self, start: AgentStart, reader: Reader) -> tuple[int, AgentFollower]:
        try:
            from detent.worker.runners.acp.acp_follower import AcpFollower
            from detent.worker.runners.acp.conversation import Conversation, Opening
        except ImportError:
            raise Failure(
                f"the agent {self.agent.name} needs the Python package agent-client-protocol. "
                "Install it on this worker with: pip install 'detent[acp]'; then retry.",
                error_class=FailureClass.NEEDS_USER,
            ) from None
        program = replace(start.program, has_input=True)
        opening = Opening(
            str(program.directory),
            start.prompt,
            start.resume_id,
            program.environment,
            self.agent.mode,
        )

        def follower(started: Program, group: Group, run: ActiveRun) -> AgentFollower:
            assert started.process.stdin is not None
            conversation = Conversation(
                started.process.stdin.fileno(), opening, self.requests, self.learn_session
            )
            return AcpFollower(
                started,
                group,
                run,
                reader=reader,
                meter=self.meter,
                size=self.setting.check_quota,
                conversation=conversation,
            )

        return follow(program, self.run, follower)
