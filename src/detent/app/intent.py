"""Intents (task types) as an app registers them: the name, the handler and the declared options."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from detent.app.arguments import Parameters
from detent.app.handle import Handle
from detent.app.handlers import (
    AgentHandler,
    CommandHandler,
    FunctionHandler,
    Handler,
    RayHandler,
    argv_schema,
    prompt_schema,
)
from detent.app.intent_options import Declared
from detent.app.prepared_submission import PreparedSubmission
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.kernel.plan import PlanStep
from detent.operations.context import Core
from detent.submission.context import Context
from detent.submission.offered_intents import (
    DESCRIPTION,
    LONGEST_DESCRIPTION,
    TOOL,
    check_offer,
)
from detent.submission.options import fields_of
from detent.submission.payload import ARGUMENTS
from detent.submission.plan_checks import CRITICS, NEEDS_PLAN

P = ParamSpec("P")
R = TypeVar("R")

Critic = Callable[..., Any]
Planner = Callable[..., Any]


class IntentOwner(Protocol):
    """What an intent needs of the app that it is registered in. App implements it."""

    core: Core | None
    critics: dict[str, Critic]

    def prepare(
        self,
        intent: "str | Intent[..., Any]",
        payload: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> PreparedSubmission: ...

    def prepare_subtask(
        self, intent: "str | Intent[..., Any]", payload: Any, arguments: Mapping[str, Any]
    ) -> PreparedSubmission: ...

    def submit_prepared(self, prepared: PreparedSubmission, **fields: Any) -> Handle[Any]: ...

    def context(
        self,
        intent: str,
        actor: c.Actor,
        options: Mapping[str, Any] | None = None,
        lifecycle: str | None = None,
    ) -> Context: ...

    def installation(self) -> Core: ...


class Intent(Generic[P, R]):
    """A registered intent (task type). Call it to call the plain function; `submit` queues a job.

    ```python
    @app.intent("double")
    def double(n: int) -> int:
        return 2 * n

    assert double(4) == 8  # the plain function, without detent
    handle = double.submit(4)
    harness.drain()
    assert handle.result() == 8
    ```
    """

    def __init__(
        self,
        app: IntentOwner,
        name: str,
        declared: Declared,
        *,
        handler: Handler | None = None,
        parameters: Parameters | None = None,
        returns: Any = Any,
        planner: Planner | None = None,
    ) -> None:
        self.app, self.name, self.declared = app, name, declared
        self.handler = handler
        self.parameters, self.returns = parameters, returns
        self.planner = planner
        self.run_timeout_ms = declared.run_timeout_ms
        self.idle_timeout_ms = declared.idle_timeout_ms
        self._row: dict[str, Any] | None = None
        self._check_key()
        if declared.tool is not None and parameters is not None:
            check_offer(name, declared.tool, arguments=parameters.schema())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, without detent."""
        if not isinstance(self.handler, FunctionHandler | RayHandler):
            raise Invalid(
                f"intent {self.name} cannot be called: its handler is not a Python function. "
                "Submit a job instead.",
                field="intent",
                given=self.name,
            )
        return self.handler.function(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Queue a job with these arguments. They are checked against the signature here."""
        return self.app.submit_prepared(self.app.prepare(self, None, args, kwargs))

    def using(self, **fields: Any) -> "Using[P, R]":
        """The intent with other fields of the request, for one submission.

        Fields: `project`, `priority`, `options`, `not_before`, `key` (an idempotency key),
        `source`, `lifecycle` (`board` or `review`: submit a task), and for tasks `title`, `tags`,
        `depends_on`, `max_budget_usd`.

        ```python
        @app.intent("sweep")
        def sweep(room: str) -> str:
            return f"{room} is clean"

        first = sweep.using(key="today", priority="P1").submit("hall")
        second = sweep.using(key="today", priority="P1").submit("hall")
        assert first.job_id == second.job_id  # the same key: one job
        ```
        """
        return Using(self, fields)

    def payload_of(self, payload: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The payload of a submission: as given, or made from the arguments of the call."""
        if payload is not None:
            return payload
        if self.parameters is None:
            return dict(kwargs) or None
        if args or kwargs:
            return self.parameters.encode(args, kwargs)
        if self.parameters.untyped:
            self.parameters.encode((), {})  # there is no schema that finds a missing argument
        return None

    @property
    def needs_plan(self) -> bool:
        """Whether each submission must bring a plan: the intent has no handler and no planner."""
        made_here = "plan" in self.declared.options or self.planner is not None
        return self.handler is None and not made_here

    def returns_for(self) -> Any:
        """The type of a job's result. The result of a plan is a table of its steps' results."""
        planned = "plan" in self.declared.options or self.planner is not None
        return Any if planned else self.returns

    def row(self) -> dict[str, Any]:
        """The row that a worker registers: the options, and the arguments of the handler."""
        if self._row is None:
            self._row = self._made_row()
        return self._row

    def _made_row(self) -> dict[str, Any]:
        declared = self.declared
        further = {
            "run_timeout_ms": declared.run_timeout_ms,
            "idle_timeout_ms": declared.idle_timeout_ms,
            "concurrency_key_template": declared.concurrency_key,
            "max_budget_usd": declared.max_budget_usd,
            NEEDS_PLAN: self.needs_plan or None,
            ARGUMENTS: self._arguments(),
            CRITICS: sorted(self.app.critics),
            TOOL: declared.tool,
            DESCRIPTION: declared.description or self._documented(),
        }
        given = {name: value for name, value in further.items() if value is not None}
        return {**declared.options, **given}

    def _arguments(self) -> dict[str, Any] | None:
        """A JSON Schema of the payloads that the handler accepts; None if it accepts any."""
        if isinstance(self.handler, CommandHandler):
            return argv_schema(self.handler.argv)
        if isinstance(self.handler, AgentHandler):
            return prompt_schema(self.handler.prompt)
        return None if self.parameters is None else self.parameters.schema()

    def _documented(self) -> str | None:
        """The docstring of the function of an intent that is offered to other agents."""
        if self.declared.tool is None or not isinstance(self.handler, FunctionHandler | RayHandler):
            return None
        documented = inspect.getdoc(self.handler.function) or ""
        return documented[:LONGEST_DESCRIPTION] or None

    # -- the concurrency key -------------------------------------------------------------------

    def _check_key(self) -> None:
        template = self.declared.concurrency_key
        if template is None:
            return
        where = f"intent {self.name}: concurrency_key"
        parameters = self.parameters
        if parameters is None or parameters.whole or parameters.takes_rest:
            return
        known = [each.name for each in parameters.named]
        for name in fields_of(template):
            if name not in known:
                raise Invalid(
                    f"{where} contains {{{name}}}, which is not a parameter of the handler.",
                    field="concurrency_key",
                    given=template,
                    allowed=known,
                )


class Using(Generic[P, R]):
    """An intent with fields of the request for one submission; made by `Intent.using`."""

    def __init__(self, intent: Intent[P, R], fields: Mapping[str, Any]) -> None:
        self.intent, self.fields = intent, fields

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Queue a job, or with a lifecycle a task, with these arguments."""
        app = self.intent.app
        return app.submit_prepared(app.prepare(self.intent, None, args, kwargs), **self.fields)


def plan_document(steps: Iterable[PlanStep | Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """The JSON document of a plan that is given as a list of plan steps, or as the document."""
    if isinstance(steps, Mapping):
        return steps
    return {"steps": [_row(step) for step in steps]}


def _row(step: PlanStep | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(step, PlanStep):
        return step
    plain = PlanStep(step.name, step.intent)
    given = {name: getattr(step, name) for name in PlanStep.__dataclass_fields__}
    changed = {name: value for name, value in given.items() if value != getattr(plain, name)}
    return {
        "name": step.name,
        "intent": step.intent,
        **{name: list(each) if isinstance(each, tuple) else each for name, each in changed.items()},
    }
