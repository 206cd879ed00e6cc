"""Intents (task types) as an app registers them: the name, the handler and the declared options."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from detent.app.arguments import Parameters
from detent.app.handle import Handle
from detent.app.handlers import FunctionHandler, Handler
from detent.app.prepared_submission import PreparedSubmission
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.kernel import document_fields
from detent.kernel.budget import on_exceeded_from
from detent.kernel.plan import LONGEST_NAME, LONGEST_TIME_MS, MAX_STEPS, PlanStep, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.retry import policy_from
from detent.operations.context import Core
from detent.submission.context import Context
from detent.submission.options import WorkspaceMode, evidence_types, fields_of
from detent.submission.payload import ARGUMENTS
from detent.submission.plan_steps import CRITICS, NEEDS_PLAN

P = ParamSpec("P")
R = TypeVar("R")

#: How many plan steps of one job run in parallel.
PARALLEL_STEPS = 4

Critic = Callable[..., Any]
Planner = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """The declared options of an intent, checked. `options` are stored with each of its jobs."""

    options: Mapping[str, Any] = field(default_factory=dict)
    run_timeout_ms: int | None = None
    idle_timeout_ms: int | None = None
    concurrency_key: str | None = None
    max_parallel_steps: int = PARALLEL_STEPS


def declare(
    name: str,
    *,
    retry: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    idle_timeout_s: float | None = None,
    queue_timeout_s: float | None = None,
    job_timeout_s: float | None = None,
    concurrency_key: str | None = None,
    capabilities_required: Sequence[str] = (),
    label_selector: Mapping[str, str] | None = None,
    avoid: Sequence[str] = (),
    hold_resource_s: float | None = None,
    acquire_timeout_s: float | None = None,
    max_retries: int | None = None,
    max_parallel_steps: int = PARALLEL_STEPS,
    critic: str | None = None,
    planner: bool = False,
    plan: Mapping[str, Any] | None = None,
    requires_evidence: Sequence[str] = (),
    on_budget_exceeded: str | None = None,
    workspace: str | None = None,
    max_rounds: int | None = None,
) -> Declared:
    """The options of an intent, checked at registration: a mistake raises Invalid at import."""
    where = f"intent {name}"
    options: dict[str, Any] = {
        "retry": dict(retry or {}),
        "queue_timeout_ms": _ms(queue_timeout_s, f"{where}: queue_timeout_s"),
        "job_timeout_ms": _ms(job_timeout_s, f"{where}: job_timeout_s"),
        "capabilities_required": _listed(capabilities_required),
        "label_selector": dict(label_selector or {}),
        "avoid": _listed(avoid),
        "hold_resource_ms": _ms(hold_resource_s, f"{where}: hold_resource_s"),
        "acquire_timeout_ms": _ms(acquire_timeout_s, f"{where}: acquire_timeout_s"),
        "max_retries": max_retries,
        "critic": critic,
        "planner": planner,
        "plan": plan,
        "requires_evidence": evidence_types(requires_evidence, f"{where}: requires_evidence"),
        "on_budget_exceeded": on_budget_exceeded,
        "workspace": workspace,
        "max_rounds": max_rounds,
    }
    kept = {key: value for key, value in options.items() if value not in (None, False, {}, [])}
    _check(kept, name, where)
    parallel = f"{where}: max_parallel_steps"
    return Declared(
        kept,
        _ms(timeout_s, f"{where}: timeout_s"),
        _ms(idle_timeout_s, f"{where}: idle_timeout_s"),
        concurrency_key,
        document_fields.whole_number(max_parallel_steps, parallel, 1, MAX_STEPS),
    )


def declared_options(name: str, options: Mapping[str, Any]) -> Declared:
    """The checked options of an intent; Invalid names an unknown option."""
    try:
        return declare(name, **options)
    except TypeError as error:
        known = list(inspect.signature(declare).parameters)[1:]
        unknown = [each for each in options if each not in known]
        if not unknown:
            raise
        raise Invalid(
            f"intent {name}: there is no option {unknown[0]!r}. Known: {', '.join(known)}.",
            field=unknown[0],
            given=unknown[0],
            allowed=known,
        ) from error


def _check(options: Mapping[str, Any], name: str, where: str) -> None:
    policy_from(options.get("retry", {}), "job", f"{where}: retry")
    if "on_budget_exceeded" in options:
        on_exceeded_from(options["on_budget_exceeded"], f"{where}: on_budget_exceeded")
    if "workspace" in options:
        document_fields.choice(options["workspace"], f"{where}: workspace", WorkspaceMode)
    document = plan_from(options, name)
    if document is not None:
        validate(document, f"{where}: plan")


def _listed(given: Sequence[str]) -> Sequence[str]:
    """A list. A text is returned as it is, and refused later as not a list."""
    return given if isinstance(given, str) else list(given)


def _ms(seconds: float | None, where: str) -> int | None:
    if seconds is None:
        return None
    max_s = LONGEST_TIME_MS // 1_000
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0.001 <= seconds <= max_s:
        raise document_fields.wrong(where, f"a number of seconds from 0.001 to {max_s}", seconds)
    return round(seconds * 1_000)


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
        self, intent: str, actor: c.Actor, options: Mapping[str, Any] | None = None
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the plain function, without detent."""
        if not isinstance(self.handler, FunctionHandler):
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
        if self.parameters is None or not (args or kwargs):
            return dict(kwargs) or None
        return self.parameters.encode(args, kwargs)

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
            NEEDS_PLAN: self.needs_plan or None,
            ARGUMENTS: None if self.parameters is None else self.parameters.schema(),
            CRITICS: sorted(self.app.critics),
        }
        given = {name: value for name, value in further.items() if value is not None}
        return {**declared.options, **given}

    # -- the concurrency key -------------------------------------------------------------------

    def _check_key(self) -> None:
        template = self.declared.concurrency_key
        if template is None:
            return
        where = f"intent {self.name}: concurrency_key"
        document_fields.text(template, where, LONGEST_NAME)
        wanted = fields_of(template)
        parameters = self.parameters
        if parameters is None or parameters.whole or parameters.takes_rest:
            return
        known = [each.name for each in parameters.named]
        for name in wanted:
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
    given = {name: getattr(step, name) for name in PlanStep.__dataclass_fields__}
    row = {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items()
    }
    return {name: value for name, value in row.items() if value not in (None, [], {})}
