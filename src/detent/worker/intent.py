"""An intent as an app knows it: its name, how it is carried out, and what was declared about it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.kernel.budget import on_exceeded_from
from detent.kernel.plan import LONGEST_NAME, LONGEST_TIME_MS, MAX_STEPS, PlanStep, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.retry import policy_from
from detent.submission.options import WorkspaceMode, evidence_types, fields_of
from detent.submission.payload import ARGUMENTS
from detent.submission.plan_steps import CRITICS, NEEDS_PLAN
from detent.worker.arguments import Parameters
from detent.worker.runners.runner import Runner

if TYPE_CHECKING:
    from detent.worker.app import App
    from detent.worker.handle import Handle

P = ParamSpec("P")
R = TypeVar("R")

#: How many steps of one plan run side by side.
PARALLEL_STEPS = 4

Critic = Callable[..., Any]
Planner = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Declared:
    """What was declared about an intent, checked. `options` travel with every job of it."""

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
    """Check everything at registration, so that a slip of the pen is seen at import."""
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
    """A list; a text stays what it is, and is refused as no list."""
    return given if isinstance(given, str) else list(given)


def _ms(seconds: float | None, where: str) -> int | None:
    if seconds is None:
        return None
    most_s = LONGEST_TIME_MS // 1_000
    number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not number or not 0.001 <= seconds <= most_s:
        raise document_fields.wrong(where, f"a number of seconds from 0.001 to {most_s}", seconds)
    return round(seconds * 1_000)


class Intent(Generic[P, R]):
    """A registered intent. It stays callable as the plain function that it was made from."""

    def __init__(
        self,
        app: "App",
        name: str,
        declared: Declared,
        *,
        function: Callable[..., Any] | None = None,
        runner: Runner | None = None,
        parameters: Parameters | None = None,
        returns: Any = Any,
        planner: Planner | None = None,
    ) -> None:
        self.app, self.name, self.declared = app, name, declared
        self.function, self.runner = function, runner
        self.parameters, self.returns = parameters, returns
        self.planner = planner
        self.run_timeout_ms = declared.run_timeout_ms
        self.idle_timeout_ms = declared.idle_timeout_ms
        self._row: dict[str, Any] | None = None
        self._check_key()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain function, for tests and for calling it without detent."""
        if self.function is None:
            raise Invalid(f"intent {self.name} is no function.", field="intent", given=self.name)
        return self.function(*args, **kwargs)

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        """Queue it with these arguments, checked here and now."""
        return self.app.place(self.app.order(self, None, args, kwargs))

    def using(self, **ways: Any) -> "Using[P, R]":
        """Submit it another way: project, priority, lifecycle, key, title, source, options."""
        return Using(self, ways)

    def payload_of(self, payload: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The payload that a submission carries, from a call's arguments if it is not given."""
        if payload is not None:
            return payload
        if self.parameters is None or not (args or kwargs):
            return dict(kwargs) or None
        return self.parameters.encode(args, kwargs)

    @property
    def needs_plan(self) -> bool:
        """It does nothing by itself: without a plan of the submission's own it could only fail."""
        made_here = "plan" in self.declared.options or self.planner is not None
        return self.runner is None and not made_here

    def returns_for(self) -> Any:
        """The type of a job's result; of a plan it is a table of its steps' results."""
        planned = "plan" in self.declared.options or self.planner is not None
        return Any if planned else self.returns

    def row(self) -> dict[str, Any]:
        """What the store keeps of it: its options, and the arguments of its handler."""
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
                    f"{where} names {{{name}}}, which is no parameter of the handler.",
                    field="concurrency_key",
                    given=template,
                    allowed=known,
                )


class Using(Generic[P, R]):
    """An intent with other ways of submitting it."""

    def __init__(self, intent: Intent[P, R], ways: Mapping[str, Any]) -> None:
        self.intent, self.ways = intent, ways

    def submit(self, *args: P.args, **kwargs: P.kwargs) -> "Handle[R]":
        app = self.intent.app
        return app.place(app.order(self.intent, None, args, kwargs), **self.ways)


def plan_document(steps: Iterable[PlanStep | Mapping[str, Any]] | Mapping[str, Any]) -> Any:
    """A plan written in Python (steps, or the document itself) as the document that travels."""
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
