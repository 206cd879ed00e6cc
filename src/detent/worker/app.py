"""The registry that people import: intents, how they are carried out and submitted."""

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload

from detent.engine import Engine
from detent.errors import DetentError, Invalid, Misconfigured
from detent.intent_config import KINDS
from detent.kernel import commands as c
from detent.kernel import document_fields
from detent.kernel.derived_ids import job_of_task
from detent.kernel.plan import LONGEST_NAME, PlanStep, validate
from detent.kernel.plan_progress import plan_from
from detent.operations.context import Core
from detent.operations.run_tokens import issue_run_token
from detent.settings import Settings
from detent.store.store_url import open_store
from detent.submission.checks import source_of
from detent.submission.command import submit_job, submit_task
from detent.submission.context import Context
from detent.submission.options import OPTIONS
from detent.worker.arguments import Parameters, returns_of
from detent.worker.handle import Handle
from detent.worker.intent import Critic, Intent, Planner, declare, plan_document
from detent.worker.run_context import AsyncRun, Run
from detent.worker.runners.agent import AgentRunner
from detent.worker.runners.agent.agent_config import agent_from
from detent.worker.runners.agent.prompt import DEFAULT as DEFAULT_PROMPT
from detent.worker.runners.agent.prompt import check_template
from detent.worker.runners.command_runner import CommandRunner
from detent.worker.runners.function_runner import FunctionRunner
from detent.worker.submission_order import Order, beside
from detent.worker.values import storable

P = ParamSpec("P")
R = TypeVar("R")

#: Jobs of this intent bring their plan along.
PLAN = "plan"
#: What an intent may say otherwise than its agent does.
AGENT_OPTIONS = ("model", "max_turns", "args")
COMMAND_OPTIONS = ("environment", "directory")
#: What a configured intent may have besides what every intent may declare.
OF_KINDS = {"command": COMMAND_OPTIONS, "agent": ("prompt", *AGENT_OPTIONS), "app": ()}
OF_TASKS = ("max_budget_usd", "subtask_intents")


@dataclass(frozen=True, slots=True)
class Register:
    """What `@app.intent(…)` waits for: the function."""

    app: "App"
    name: str
    options: Mapping[str, Any]

    @overload
    def __call__(
        self, function: Callable[Concatenate[AsyncRun, P], Coroutine[Any, Any, R]]
    ) -> Intent[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Run, P], R]) -> Intent[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Intent[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Intent[P, R]: ...

    def __call__(self, function: Callable[..., Any]) -> Intent[..., Any]:
        return self.app.register(self.name, function, self.options)


class App:
    """Intents by name. Import it, register handlers, submit work, give it to a worker."""

    def __init__(self) -> None:
        self.intents: dict[str, Intent[..., Any]] = {}
        self.critics: dict[str, Critic] = {}
        #: Agent command lines by name, as `[agents.NAME]` has them.
        self.agents: Mapping[str, Mapping[str, Any]] = {}
        self.core: Core | None = None
        self._add(PLAN, None, {})

    # -- registering -----------------------------------------------------------------------

    def intent(self, name: str, **options: Any) -> Register:
        """Register the decorated function, plain or async. Options: see `intent.declare`."""
        return Register(self, name, options)

    def register(
        self, name: str, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> Intent[..., Any]:
        asynchronous = inspect.iscoroutinefunction(function)
        parameters = Parameters(function, (AsyncRun if asynchronous else Run,))
        runner = FunctionRunner(function, parameters, asynchronous=asynchronous)
        return self._add(
            name,
            function,
            options,
            runner=runner,
            parameters=parameters,
            returns=returns_of(function),
        )

    def command(self, name: str, argv: Sequence[str], **options: Any) -> Intent[..., Any]:
        """Register a command for an intent: an argv list, never a shell. See `runners.command`."""
        own = {key: options.pop(key) for key in COMMAND_OPTIONS if key in options}
        return self._add(name, None, options, runner=CommandRunner(argv, **own))

    def agent(
        self, name: str, agent: str = "claude", prompt: str = DEFAULT_PROMPT, **options: Any
    ) -> Intent[..., Any]:
        """Register an agent for an intent: one of `agents`, or a preset. See `runners.agent`."""
        found = agent_from(agent, self.agents)
        for key in AGENT_OPTIONS:
            if key in options:
                found = dataclasses.replace(found, **{key: options.pop(key)})
        template = check_template(prompt, f"intents.{name}.prompt")
        return self._add(name, None, options, runner=AgentRunner(found, template, issue_run_token))

    def plan(
        self,
        name: str,
        steps: Iterable[PlanStep | Mapping[str, Any]] | Mapping[str, Any],
        **options: Any,
    ) -> Intent[..., Any]:
        """Register a plan that is the same for every job of the intent."""
        return self._add(name, None, {**options, "plan": plan_document(steps)})

    def planner(self, name: str, **options: Any) -> Callable[[Planner], Intent[..., Any]]:
        """Register the decorated function as the planner of an intent: it makes each job's plan."""
        return lambda planner: self._add(name, None, {**options, "planner": planner})

    def critic(self, name: str) -> Callable[[Critic], Critic]:
        """Register the decorated function as a critic that steps can name."""

        def register(critic: Critic) -> Critic:
            self._add_critic(name, critic)
            return critic

        return register

    def _add(
        self, name: str, function: Any, options: Mapping[str, Any], **parts: Any
    ) -> Intent[..., Any]:
        document_fields.text(name, "intent", LONGEST_NAME)
        if name in self.intents:
            raise Invalid(f"intent {name!r} is registered already.", field="intent", given=name)
        critic, planner = options.get("critic"), options.get("planner")
        declared = _declared(
            name,
            {
                **options,
                **({"critic": name} if callable(critic) else {}),
                "planner": planner is not None,
            },
        )
        made: Intent[..., Any] = Intent(
            self, name, declared, function=function, planner=planner, **parts
        )
        if callable(critic):
            self._add_critic(name, critic)
        self.intents[name] = made
        return made

    def _add_critic(self, name: str, critic: Critic) -> None:
        if name in self.critics:
            raise Invalid(f"critic {name!r} is registered already.", field="critic", given=name)
        self.critics[name] = critic

    def include(self, other: "App", names: Iterable[str] | None = None) -> None:
        """Take over intents, and all critics, of another app."""
        for name in other.intents if names is None else names:
            if name == PLAN:
                continue
            if name not in other.intents:
                raise Invalid(
                    f"the app has no intent {name!r}.",
                    field="intent",
                    given=name,
                    allowed=other.intents,
                )
            if name in self.intents:
                raise Invalid(f"intent {name!r} is registered already.", field="intent", given=name)
            self.intents[name] = other.intents[name]
        for name, critic in other.critics.items():
            if self.critics.get(name) is not critic:
                self._add_critic(name, critic)

    def check(self) -> None:
        """What only the whole app can tell: steps and critics that it names and does not have."""
        for intent in self.intents.values():
            document = plan_from(intent.declared.options, intent.name)
            for step in () if document is None else validate(document).steps:
                where = f"intent {intent.name}, step {step.name}"
                self._must_have(step.intent, self.intents, "intent", where)
                if step.critic is not None:
                    self._must_have(step.critic, self.critics, "critic", where)

    def _must_have(self, name: str, known: Mapping[str, Any], kind: str, where: str) -> None:
        if name not in known:
            raise Invalid(
                f"{where}: there is no {kind} {name!r} in this app.",
                field=kind,
                given=name,
                allowed=known,
            )

    # -- submitting ------------------------------------------------------------------------

    def connect(self, url: str, *, data_dir: str = "") -> "App":
        """Open a store, a path or postgresql://…, to submit to and for a worker of this process."""
        settings = Settings(store_url=url, store_data_dir=data_dir or beside(url))
        store = open_store(settings.url)
        return self.bind(Core(store, Engine(store), settings))

    def bind(self, core: Core) -> "App":
        """Submit through this installation; included apps do so too, unless they have their own."""
        self.core = core
        for intent in self.intents.values():
            intent.app.core = intent.app.core or core
        return self

    def submit(self, intent: str, payload: Any = None, **ways: Any) -> Handle[Any]:
        """Queue a job by the intent's name; `ways` as in `place`."""
        return self.place(self.order(intent, payload, (), {}), **ways)

    def order(
        self,
        intent: str | Intent[..., Any],
        payload: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Order:
        """What is asked for, with its payload as JSON; it is not submitted yet."""
        known = intent if isinstance(intent, Intent) else self.intents.get(intent)
        if known is None:
            given = payload if payload is not None else dict(kwargs) or None
            return Order(cast(str, intent), storable(given, "payload"), Any)
        given = known.payload_of(payload, args, kwargs)
        return Order(known.name, storable(given, "payload"), known.returns_for())

    def suborder(
        self, intent: str | Intent[..., Any], payload: Any, arguments: Mapping[str, Any]
    ) -> Order:
        """The order of a subtask. An intent that needs a plan takes it as the argument `plan`."""
        known = intent if isinstance(intent, Intent) else self.intents.get(intent)
        if known is None or not known.needs_plan:
            return self.order(intent, payload, (), arguments)
        rest = {name: value for name, value in arguments.items() if name != "plan"}
        if arguments.get("plan") is None:
            raise Invalid(
                f"A subtask of the intent {known.name!r} must include its plan.",
                field="plan",
                hint=f"Call run.subtask({known.name!r}, plan=[…]) with the steps of the plan.",
            )
        plan = storable(plan_document(arguments["plan"]), "plan")
        return self.order(known, payload, (), rest)._replace(plan=plan)

    def place(
        self,
        order: Order,
        *,
        lifecycle: str | None = None,
        source: str = "api",
        key: str | None = None,
        **ways: Any,
    ) -> Handle[Any]:
        """Queue it: a job alone, or with a `lifecycle` (board, review) a task. `key`: only once.

        Further ways are the fields of the request: project, priority, options, not_before, and of
        a task title, tags, depends_on, max_budget_usd.
        """
        actor = c.Actor(f"app:{source}")
        given = {**order.given(), **ways, "idempotency_key": key}
        context = self.context(order.intent, actor, given.get("options"))
        if lifecycle is None:
            source_of(context, source)
            made = submit_job(context, given)
        else:
            task = {"run": True, **given, "lifecycle": lifecycle, "source": source}
            made = submit_task(context, task)
        engine = self.installation().engine
        (result,) = engine.execute([made.request()])
        if isinstance(result, DetentError):
            raise result
        first = result.value
        job_id, task_id = (first, None) if lifecycle is None else (job_of_task(first, 1), first)
        return Handle(engine, job_id, task_id, order.returns, actor)

    def context(
        self, intent: str, actor: c.Actor, options: Mapping[str, Any] | None = None
    ) -> Context:
        """What a submission of the intent with these options is checked against.

        An intent of this app is known before a worker has registered it. Only a plan names others.
        """
        core, own = self.installation(), self.intents.get(intent)
        if own is not None and intent not in core.intents:
            row = own.row()
            if plan_from({**row, **(options or {})}, intent) is None:
                return Context(core.store, core.settings, {intent: row}, actor)
        rows = {name: each.row() for name, each in self.intents.items()}
        return Context(core.store, core.settings, {**rows, **core.known_intents()}, actor)

    def installation(self) -> Core:
        """What it is connected to."""
        if self.core is None:
            raise Misconfigured(
                "the app is not connected to a store.",
                setting="store.url",
                hint="Call app.connect(url) first, or give the app to a worker.",
            )
        return self.core

    # -- from configuration ----------------------------------------------------------------

    @classmethod
    def from_config(
        cls,
        intents: Mapping[str, Mapping[str, Any]],
        agents: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "App":
        """The intents of a configuration file: commands, agents, and those of Python apps."""
        app = cls()
        app.agents = agents or {}
        for name, row in intents.items():
            try:
                app._add_configured(name, row)
            except Invalid as error:
                raise Misconfigured(error.message, setting=f"intents.{name}") from None
        return app

    def _add_configured(self, name: str, row: Mapping[str, Any]) -> None:
        kind = next(each for each in KINDS if each in row)
        declared = {*inspect.signature(declare).parameters} - {"name"}
        known = {kind, *OF_KINDS[kind], *declared, *OPTIONS, *OF_TASKS}
        if unknown := sorted(row.keys() - known):
            raise Misconfigured(
                f"intents.{name}.{unknown[0]} is not known",
                setting=f"intents.{name}.{unknown[0]}",
                hint=f"Known: {', '.join(sorted(known))}.",
            )
        options = {key: row[key] for key in row if key in {*declared, *OF_KINDS[kind]}}
        if kind == "command":
            self.command(name, row["command"], **options)
        elif kind == "agent":
            self.agent(name, row["agent"], options.pop("prompt", DEFAULT_PROMPT), **options)
        else:
            self.include(load_app(row["app"]), [name])


def load_app(reference: str) -> App:
    """The app that `package.module:name` means; a clear error if it cannot be imported."""
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, attribute or "app")
    except Exception as error:  # whatever its code raises while it is imported
        raise Misconfigured(
            f"the app {reference!r} cannot be imported: {type(error).__name__}: {error}",
            setting="app",
            hint="Write it as package.module:name, and see that Python finds the module.",
        ) from error
    if not isinstance(found, App):
        kind = type(found).__name__
        raise Misconfigured(f"{reference!r} is a {kind}, not a detent app", setting="app")
    return found


def _declared(name: str, options: Mapping[str, Any]) -> Any:
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
