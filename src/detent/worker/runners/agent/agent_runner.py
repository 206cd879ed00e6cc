"""The agent runner: executes a run with an agent's command line, configured in `[agents.NAME]`.

The session is stored before the process starts. Costs are charged while it runs. A question ends
the run and frees its slot; after the answer, the next run uses the same session and directory.
"""

import contextlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from detent.app.agent_config import NEW_SESSION
from detent.app.failures import Failure
from detent.app.handlers import AgentHandler
from detent.app.retried_calls import retried
from detent.app.values import storable
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.budget import OnExceeded, dollars, on_exceeded_from
from detent.kernel.commands import review_commands as rc
from detent.kernel.retry import FailureClass
from detent.operations import budgets
from detent.operations.comment_threads import Thread
from detent.operations.run_comments import open_threads
from detent.operations.run_reports import recorded_question
from detent.redaction import redact, redact_bytes, redact_value
from detent.store.port import ReadTransaction
from detent.submission.prompt_template import fill_template
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.git_command import WorkspaceFailed
from detent.worker.runners.agent.agent_files import (
    QUESTION,
    Asked,
    asked_from,
    question_in,
    summary_in,
)
from detent.worker.runners.agent.agent_process import (
    AgentFollower,
    Meter,
    execute_while_held,
)
from detent.worker.runners.agent.exit_status import End, end_of
from detent.worker.runners.agent.launch import IssueToken, Setting
from detent.worker.runners.agent.output_parser import Reader
from detent.worker.runners.agent.prompt import opening, with_criteria
from detent.worker.runners.agent.reply_file import replies_in
from detent.worker.runners.agent.session_history import Past, past_of
from detent.worker.runners.command_runner import keeps_evidence, report_evidence
from detent.worker.runners.follower import follow
from detent.worker.runners.process_group import Group
from detent.worker.runners.program import Program, ProgramSpec
from detent.worker.worktree_evidence import keep_changes

T = TypeVar("T")

#: The status of a service that is overloaded.
OVERLOADED = "529"
KEEP, GO_ON = "keep", "go on"
MAX_RESULT = 200_000
#: Added to a failure of an agent's MCP client.
NO_GATEWAY = (
    " No gateway of this data directory was running when the agent started, so it had no "
    "DETENT_URL and no tools of detent. Start one (`detent up` or `detent serve`), then retry."
)


class AgentRunner:
    """Runs one agent for each run of its intent."""

    asynchronous = False
    stoppable = True

    def __init__(self, handler: AgentHandler, token: IssueToken | None = None) -> None:
        self.agent, self.prompt, self.token = handler.agent, handler.prompt, token
        self.program = handler.program

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        try:
            return self.begin(run, client).report()
        except Failure as failure:
            failed = run_outcome.Failed(failure.error_class, redact(str(failure)))
        except (DetentError, OSError, ValueError) as error:
            failed = run_outcome.of_exception(error)
        return run_outcome.failed(run.held.grant, run.run_id, failed)

    def begin(self, run: ActiveRun, client: EngineClient) -> "AgentRun":
        return AgentRun(self, run, client)

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        return await client.run_blocking(lambda: self.execute(run, client))


class AgentStart(NamedTuple):
    """What a process of an agent is started with; `resume_id` is the session that it continues."""

    program: ProgramSpec
    prompt: str
    resume_id: str | None


class AgentRun:
    """Executes one run and returns its report."""

    def __init__(self, runner: AgentRunner, run: ActiveRun, client: EngineClient) -> None:
        self.runner, self.agent = runner, runner.agent
        self.run, self.client = run, client
        self.grant, self.run_id = run.held.grant, run.run_id
        in_image = runner.program.image is not None
        self.setting = Setting(runner.agent, run, runner.token, in_image=in_image)
        self.meter = Meter(run, client, self.setting.model)
        self.failure: Failure | None = None
        #: The tokens of the session before this run.
        self.tokens_before: Mapping[str, int] = {}

    def report(self) -> c.Report:
        """Execute the run and report its end."""
        past = self._query(lambda view: past_of(view, self.run))
        past = past._replace(comments=self._open_comments())
        kept = past.latest("confirmation")
        if kept is not None and kept.value.get("answer") == KEEP:
            return run_outcome.completed(self.grant, self.run_id, kept.value.get("result"))
        budget = self._reserved()
        if budget == 0:
            why = f"the agent {self.agent.name} was not started: its budget is spent"
            return self._over_budget(why)
        self.setting.prepare(past.failed_run)
        asked = fill_template(self.runner.prompt, self.run.payload, past.title)
        prompt = with_criteria(asked, self.run.held.job.options.get("acceptance_criteria", ()))
        return self._reported(self._worked(prompt, past, budget))

    def _open_comments(self) -> tuple[Thread, ...]:
        """The open comments on the work of the task; a plan step does not get them."""
        task = self.run.held.task
        if task is None or not self.run.whole_job:
            return ()
        core = self.setting.core
        return tuple(retried(lambda: open_threads(core, task)[1], self.run.held.expired))

    def _reserved(self) -> int | None:
        """Reserve the amount that the agent may spend; no other run of the tree can reserve it."""
        if self.run.held.task is None:
            return None
        amount: int | None = self.client.execute(
            c.ReserveFunds(self.grant, self.run_id), lease_over=self.run.held.expired
        )
        return amount

    def _query(self, read: Callable[[ReadTransaction], T]) -> T:
        return self.client.query(read, self.run.held.expired)

    def _now(self) -> int:
        return self.client.now(self.run.held.expired)

    # -- working ---------------------------------------------------------------------------

    def _worked(self, prompt: str, past: Past, budget: int | None) -> End:
        """Run in the existing session; if the agent cannot use it, once more in a new one."""
        known = past.session_id
        if known is not None and self.setting.holds(known):
            self.meter.begin(past.cost)
            self.tokens_before = past.tokens
            end = self._execute(opening(prompt, past, resumed=True), known, budget, resumed=True)
            if end.kind != NEW_SESSION or self.run.stopped is not None:
                return end
            self._note(f"the session {known} cannot be continued: {end.text}")
        elif known is not None:
            renewed = self.setting.workspace.made_after is not None
            why = "is of an attempt that failed" if renewed else "is not on this machine"
            self._note(f"the session {known} {why}: a new one is started")
        self.meter.begin(0)
        first = opening(prompt, past, resumed=False)
        end = self._execute(first, str(uuid.uuid4()), budget, resumed=False)
        if end.kind == NEW_SESSION and self.run.stopped is None:
            self._note(f"a session could not be started, another one is tried: {end.text}")
            end = self._execute(first, str(uuid.uuid4()), budget, resumed=False)
        return end._replace(kind="error") if end.kind == NEW_SESSION else end

    def _execute(self, prompt: str, session_id: str, budget: int | None, *, resumed: bool) -> End:
        self._join(session_id)
        reader = Reader(self.agent, self.tokens_before if resumed else {})
        argv = self.setting.argv(prompt, session_id, budget, resumed=resumed)
        environment = self.setting.environment(session_id)
        program = self.setting.program(argv, environment, self.runner.program)
        start = AgentStart(program, prompt, session_id if resumed else None)
        code, following = self.follow(start, reader)
        self.failure = self.failure or following.failure
        if following.exceeded is not None:
            failed = following.exceeded.failed(self.run.intent.name, code)
            self.failure = Failure(failed.error, error_class=failed.error_class)
        for refusal in following.program.refusals():
            self._note(refusal)
        if following.lines.too_long:
            self._note(f"{following.lines.too_long} lines were too long to be read")
        if self.agent.success == "exit" and "text" not in reader.facts:
            reader.facts["text"] = following.tail()
        return end_of(self.agent, reader, code, resumed=resumed, now=self._now())

    def follow(self, start: AgentStart, reader: Reader) -> tuple[int, AgentFollower]:
        """Start the agent's process and read its output until it has ended."""

        def follower(program: Program, group: Group, run: ActiveRun) -> AgentFollower:
            return AgentFollower(
                program,
                group,
                run,
                reader=reader,
                meter=self.meter,
                on_session=self.learn_session,
                size=self.setting.check_quota,
            )

        return follow(start.program, self.run, follower)

    def _join(self, session_id: str) -> None:
        """Store the session before the process starts, so that a crash cannot lose it."""
        execute_while_held(
            self.client, self.run, c.OpenSession(self.grant, session_id, self.run_id)
        )
        self.setting.workspace.hold(session_id)

    def learn_session(self, session_id: str) -> None:
        """Store the session id that the agent chose, unless detent had given it one."""
        if not self.setting.chooses_sessions:
            self._join(session_id)

    def _note(self, text: str) -> None:
        command = c.ReportProgress(self.grant, self.run_id, None, redact(text)[:2_000])
        execute_while_held(self.client, self.run, command)

    # -- reporting -------------------------------------------------------------------------

    def _reported(self, end: End) -> c.Report:
        for doubt in self.meter.doubts:
            self._note(doubt)
        if self.run.stopped is not None:
            self._keep_evidence()
            return self._failed(end)  # the reason of the stop counts, whatever is returned here
        question = self._question()
        self._reply()
        self._keep_evidence()
        if self.failure is not None:
            raise self.failure
        if end.kind == FailureClass.BUDGET and self._may_spend_on():
            return self._suspended("share", "timer", {}, self._now())
        if self.meter.exceeded or end.kind == FailureClass.BUDGET:
            stopped = f"the agent {self.agent.name} was stopped: its costs exceed its budget"
            why = stopped if self.meter.exceeded else end.text or stopped
            return self._over_budget(why, end.exit_code)
        if end.kind is not None:
            return self._failed(end)
        self._keep_work()
        result = self._result(end, question.summary)
        denials = end.facts.get("denials")
        if denials:
            return self._denied(denials, result)
        if question.asked is not None:
            return self._ask(question.asked)
        return run_outcome.completed(self.grant, self.run_id, result, end.exit_code)

    def _may_spend_on(self) -> bool:
        """Whether it has spent its share of a budget and some is left: it continues with the
        next share. A report of this kind from a run that has spent nothing is ignored."""
        task = self.run.held.task
        if task is None or task.budget is not None or self.meter.exceeded or not self.meter.cost:
            return False
        return bool(self._query(lambda view: budgets.remaining(budgets.with_ancestors(view, task))))

    def _failed(self, end: End) -> c.Report:
        kind = FailureClass(end.kind or FailureClass.ERROR)
        text = end.text
        if self.setting.lacks_gateway and "mcp" in text.casefold():
            text = f"{text[: run_outcome.LONGEST_ERROR - len(NO_GATEWAY)]}{NO_GATEWAY}"
        failed = run_outcome.Failed(kind, text, end.exit_code, self._reset_at(end))
        return run_outcome.failed(self.grant, self.run_id, failed)

    def _reset_at(self, end: End) -> int | None:
        """When the rate limit ends. An overloaded provider states no time, only the agent does."""
        overloaded = str(end.facts.get("status")) == OVERLOADED
        return None if overloaded and self.setting.provider is not None else end.reset_at

    def _question(self) -> Any:
        """The question, from the run's HTTP endpoint or its file; the file becomes evidence."""
        found = question_in(self.run.files)
        if found.data is not None:
            self.run.files.keep(QUESTION, redact_bytes(found.data))
            (self.run.files.path / QUESTION).unlink(missing_ok=True)
        reported = self._query(lambda view: recorded_question(view, self.grant.job_id, self.run_id))
        return found if reported is None else found._replace(asked=asked_from(reported))

    def _reply(self) -> None:
        """Record the replies that the agent has written to its file."""
        task, written = self.run.held.task, replies_in(self.run.files)
        for problem in written.problems:
            self._note(problem)
        if task is None:
            return
        for number, each in enumerate(written.replies, 1):
            reply = rc.NewReply(each.comment_id, f"{self.run_id}-{number}", each.text)
            command = rc.AddComments(task.id, replies=(reply,), run_id=self.run_id)
            try:
                self.client.execute(command, self.grant, self.run.held.expired)
            except DetentError as error:
                self._note(f"the reply to comment {each.comment_id} was not recorded: {error}")

    def _keep_evidence(self) -> None:
        if not keeps_evidence(self.run):
            return
        files, environment = self.run.files, self.setting.plain_environment()
        index = files.path / "index.part"
        changes, workspace = [], self.setting.workspace
        with workspace.staged(environment, index, self.setting.confined) as staged:
            if staged is not None:
                changes = keep_changes(staged, files)
                self.setting.workspace = workspace.with_diff_base(staged.base)
        report_evidence(self.run, self.client, changes)

    def _keep_work(self) -> None:
        try:
            self.setting.keep_work()
        except WorkspaceFailed as failure:
            self._note(f"the work is in its workspace only: {failure}")

    def _result(self, end: End, reported: str | None) -> dict[str, Any]:
        """The result of the task: the agent's last message, and its summary."""
        summary, wrong = summary_in(self.run.files)
        if wrong is not None:
            self._note(f"the summary was not read: {wrong}")
        facts = end.facts
        text = facts.get("text")
        found = {
            "text": redact(text)[:MAX_RESULT] if isinstance(text, str) else None,
            "summary": summary or reported,
            "output": _storable(facts.get("output")),
            "turns": facts.get("turns"),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _ask(self, question: Asked) -> c.Report:
        due_at = None
        if question.expires_in_s is not None:
            due_at = self._now() + round(question.expires_in_s * 1_000_000)
        return self._suspended("answer", "question", question.detail(), due_at)

    def _denied(self, denials: Any, result: dict[str, Any]) -> c.Report:
        """The agent reports success, but tool calls were denied."""
        text = f"The agent was not allowed to use {_tools(denials)}."
        if self.agent.denials == "fail":
            raise Failure(text, error_class=FailureClass.NEEDS_USER)
        detail = {"text": f"{text} Keep its result, or let it go on?", "options": [KEEP, GO_ON]}
        return self._suspended("denied", "confirmation", {**detail, "result": result})

    def _over_budget(self, why: str, exit_code: int | None = None) -> c.Report:
        run, task = self.run, self.run.held.task
        spent = dollars(self.meter.cost)
        text = f"{why} (cost of this run: {spent} dollars)"
        policy = run.held.job.options.get("on_budget_exceeded") or OnExceeded.STOP
        if on_exceeded_from(policy) is OnExceeded.STOP:
            failed = run_outcome.Failed(FailureClass.BUDGET, text, exit_code)
            return run_outcome.failed(self.grant, self.run_id, failed)
        budget = None if task is None else task.budget
        detail = {"text": text, "budget": budget, "exceeded": self.meter.exceeded}
        return self._suspended("budget", "budget", detail)

    def _suspended(
        self, name: str, kind: str, detail: dict[str, Any], due_at: int | None = None
    ) -> c.Report:
        wait = f"{name}:{self.run_id}"
        return c.SuspendRun(self.grant, self.run_id, wait, kind, due_at=due_at, detail=detail)


def _tools(denials: Any) -> str:
    rows = denials if isinstance(denials, list) else [denials]
    names = [each.get("tool_name", "?") if isinstance(each, dict) else str(each) for each in rows]
    return redact(", ".join(dict.fromkeys(map(str, names))))[:500]


def _storable(value: Any) -> Any:
    """The agent's structured output with secrets removed, if it can be stored."""
    with contextlib.suppress(DetentError, ValueError):
        return storable(redact_value(value), "output")
    return None
