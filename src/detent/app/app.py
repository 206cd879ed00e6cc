"""App: registers intents (task types) with their handlers, and submits jobs and tasks."""

import importlib
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, overload

import platformdirs

from detent.app import configured_intents
from detent.app.arguments import returns_of
from detent.app.async_run_context import AsyncRun
from detent.app.function_handlers import handler_of
from detent.app.handle import Handle
from detent.app.intent import Critic, Intent, Planner, plan_document
from detent.app.intent_options import PLAN, declared_options, registered_already
from detent.app.lifecycle_documents import Document, document_from, install_all
from detent.app.prepared_submission import PreparedSubmission, both_given
from detent.app.ray_run import RayRun
from detent.app.run_context import Run
from detent.app.values import storable
from detent.engine import Engine
from detent.errors import DetentError, Invalid, Misconfigured
from detent.kernel import commands as c
from detent.kernel.derived_ids import job_of_task
from detent.kernel.plan import PlanStep, validate
from detent.kernel.plan_progress import plan_from
from detent.kernel.variants import VARIANTS
from detent.operations.context import Core
from detent.settings import Settings
from detent.store.store_url import is_postgres, open_store, sqlite_path
from detent.submission.checks import source_of
from detent.submission.command import submit_job, submit_task
from detent.submission.context import SHIPPED_CHOICES, Context
from detent.submission.prompt_template import DEFAULT_PROMPT
from detent.task_lifecycles import SHIPPED
from detent.trace_propagation import current_traceparent

P = ParamSpec("P")
R = TypeVar("R")
FIND_THE_APP = "Name an App as package.module:name, and make sure that Python finds the module."


@dataclass(frozen=True, slots=True)
class Register:
    """The decorator that `app.intent(…)` returns."""

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
    def __call__(self, function: Callable[Concatenate[RayRun, P], R]) -> Intent[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]]) -> Intent[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Intent[P, R]: ...

    def __call__(self, function: Callable[..., Any]) -> Intent[..., Any]:
        return self.app.register(self.name, function, self.options)


class App:
    """A registry of intents (task types). Register handlers, submit work, give it to a worker.

    ```python
    @app.intent("greet", retry={"retries": 3}, timeout_s=60)
    def greet(name: str) -> str:
        return f"Hello, {name}"

    handle = greet.submit("Ada")
    harness.drain()
    assert handle.result() == "Hello, Ada"
    ```
    """

    def __init__(self) -> None:
        self.intents: dict[str, Intent[..., Any]] = {}
        self.critics: dict[str, Critic] = {}
        #: Documents of lifecycles by name: a TOML text, or its values.
        self.lifecycles: dict[str, Document] = {}
        #: Configured agent command lines by name: the tables `[agents.NAME]`.
        self.agents: Mapping[str, Mapping[str, Any]] = {}
        self.core: Core | None = None
        self._add(PLAN, {})

    # -- registering -----------------------------------------------------------------------

    def intent(self, name: str, **options: Any) -> Register:
        """Register the decorated function, plain or async, as the handler of an intent.

        Options: `retry`, `timeout_s`, `idle_timeout_s`, `queue_timeout_s`, `job_timeout_s`,
        `concurrency_key`, `capabilities_required`, `label_selector`, `avoid`, `providers`,
        `switch_provider`, `hold_resource_s`,
        `acquire_timeout_s`, `max_retries`, `critic`, `requires_evidence`, `max_budget_usd`,
        `on_budget_exceeded`, `workspace`, `workspace_per`, `max_rounds`, `on_accept`,
        `target_branch`, `push_remote`, `acceptance_criteria`, `checker`, `checker_may_accept`,
        `variants`, `choose`, to offer the intent to other agents `tool` and `description`, and to
        execute it on Ray `ray`.
        """
        return Register(self, name, options)

    def register(
        self, name: str, function: Callable[..., Any], options: Mapping[str, Any]
    ) -> Intent[..., Any]:
        """Register a function without the decorator."""
        rest, handler = handler_of(name, function, options)
        parameters, returns = handler.parameters, returns_of(function)
        return self._add(name, rest, handler=handler, parameters=parameters, returns=returns)

    def command(self, name: str, argv: Sequence[str], **options: Any) -> Intent[..., Any]:
        """Register a command for an intent: an argv list, executed without a shell.

        An element `{payload.field}` is replaced by that field; a submission without the field is
        refused. Besides the options of `intent`: `environment` (names of variables that the command
        gets), `secrets` (variables whose values are references), `directory`, and the options of
        programs: `hosts`, `limits`, `setup`, `cleanup` and `caches`.

        ```python
        app.command("lint", ["ruff", "check", "--", "{payload.path}"], timeout_s=60)
        handle = app.submit("lint", {"path": "src"})
        assert handle.state() == "queued"
        ```
        """
        made = configured_intents.command(argv, options)
        return self._add(name, made.options, handler=made.handler)

    def agent(
        self, name: str, agent: str = "claude", prompt: str = DEFAULT_PROMPT, **options: Any
    ) -> Intent[..., Any]:
        """Register an agent for an intent: a configured agent or a preset, and its prompt.

        The prompt can contain `{title}`, `{payload}` and `{payload.field}`; a submission without
        the field is refused. Besides the options of `intent`: `model`, `max_turns`, `args`, and the
        options of programs.
        """
        given = {**options, "prompt": prompt}
        made = configured_intents.agent(name, agent, given, self.agents)
        return self._add(name, made.options, handler=made.handler)

    def plan(
        self,
        name: str,
        steps: Iterable[PlanStep | Mapping[str, Any]] | Mapping[str, Any],
        **options: Any,
    ) -> Intent[..., Any]:
        """Register a plan that is the same for every job of the intent.

        A plan has plan steps, each with an intent of its own; `needs` names the steps before it.

        ```python
        @app.intent("extract")
        def extract() -> list[int]:
            return [1, 2]

        @app.intent("load")
        def load(extract: list[int]) -> int:
            return sum(extract)

        app.plan("etl", [{"name": "extract"}, {"name": "load", "needs": ["extract"]}])
        handle = app.submit("etl")
        harness.drain()
        assert handle.result()["load"] == 3
        ```
        """
        return self._add(name, {**options, "plan": plan_document(steps)})

    def planner(self, name: str, **options: Any) -> Callable[[Planner], Intent[..., Any]]:
        """Register the decorated function as the planner of an intent: it makes each job's plan.

        The function gets a PlanRequest and returns the plan steps.
        """
        return lambda planner: self._add(name, {**options, "planner": planner})

    def critic(self, name: str) -> Callable[[Critic], Critic]:
        """Register the decorated function as a critic that plan steps can name.

        The function gets the StepResult of a run and the results of the step's earlier runs, and
        returns a decision: `accept`, `retry`, `switch_resource`, `replan` or `needs_user`.
        """

        def register(critic: Critic) -> Critic:
            self._add_critic(name, critic)
            return critic

        return register

    def lifecycle(self, document: Mapping[str, Any] | str | Path) -> str:
        """Declare a lifecycle of tasks: its values, or the path of a TOML file. Return its name.

        A worker of the app installs it when it starts; `install_lifecycles` installs it now.
        """
        declared = document_from(document)
        self.lifecycles[declared.name] = declared
        return declared.name

    def install_lifecycles(self) -> None:
        """Install the declared lifecycles. Those that are installed already change nothing."""
        install_all(self.installation(), self.lifecycles.values())

    def _add(self, name: str, options: Mapping[str, Any], **parts: Any) -> Intent[..., Any]:
        self._refuse_second(name)
        critic, planner = options.get("critic"), options.get("planner")
        declared = declared_options(
            name,
            {
                **options,
                **({"critic": name} if callable(critic) else {}),
                "planner": planner is not None,
            },
        )
        made: Intent[..., Any] = Intent(self, name, declared, planner=planner, **parts)
        if callable(critic):
            self._add_critic(name, critic)
        self.intents[name] = made
        return made

    def _refuse_second(self, name: str) -> None:
        if name in self.intents:
            raise registered_already(name)

    def _add_critic(self, name: str, critic: Critic) -> None:
        if name in self.critics:
            raise Invalid(f"critic {name!r} is registered already.", field="critic", given=name)
        self.critics[name] = critic

    def include(self, other: "App", names: Iterable[str] | None = None) -> None:
        """Add another app's intents, or those that are named, its critics and its lifecycles."""
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
            self._refuse_second(name)
            self.intents[name] = other.intents[name]
        self.lifecycles |= other.lifecycles
        for name, critic in other.critics.items():
            if self.critics.get(name) is not critic:
                self._add_critic(name, critic)

    def check(self) -> None:
        """Raise Invalid if a plan names an intent or a critic that the app does not have."""
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
        """Open a store, so that the app can submit to it and a worker can be started.

        `url` is a path of an SQLite file, `postgresql://…`, or `memory:`.
        """
        settings = Settings(store_url=url, store_data_dir=data_dir or _default_data_dir(url))
        store = open_store(settings.url)
        return self.bind(Core(store, Engine(store), settings))

    def bind(self, core: Core) -> "App":
        """Submit through this installation. Included apps without one get it too."""
        self.core = core
        for intent in self.intents.values():
            intent.app.core = intent.app.core or core
        return self

    def submit(self, intent: str, payload: Any = None, **fields: Any) -> Handle[Any]:
        """Queue a job by the name of its intent. `fields` are those of `Intent.using`.

        ```python
        @app.intent("resize")
        def resize(path: str, width: int = 100) -> str:
            return f"{path} at {width}"

        handle = app.submit("resize", {"path": "a.png"}, priority="P1")
        harness.drain()
        assert handle.result() == "a.png at 100"
        ```
        """
        return self.submit_prepared(self.prepare(intent, payload, (), {}), **fields)

    def prepare(
        self,
        intent: str | Intent[..., Any],
        payload: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> PreparedSubmission:
        """A submission with its payload as JSON; it is not submitted yet."""
        if payload is not None and kwargs:
            raise both_given(kwargs)
        known = intent if isinstance(intent, Intent) else self.intents.get(intent)
        if known is None:
            given = payload if payload is not None else dict(kwargs) or None
            return PreparedSubmission(cast(str, intent), storable(given, "payload"), Any)
        given = known.payload_of(payload, args, kwargs)
        return PreparedSubmission(known.name, storable(given, "payload"), known.returns_for())

    def prepare_subtask(
        self, intent: str | Intent[..., Any], payload: Any, arguments: Mapping[str, Any]
    ) -> PreparedSubmission:
        """The submission of a subtask. An intent that needs a plan gets it as argument `plan`."""
        known = intent if isinstance(intent, Intent) else self.intents.get(intent)
        if known is None or not known.needs_plan:
            return self.prepare(intent, payload, (), arguments)
        rest = {name: value for name, value in arguments.items() if name != "plan"}
        if arguments.get("plan") is None:
            raise Invalid(
                f"A subtask of the intent {known.name!r} must include its plan.",
                field="plan",
                hint=f"Call run.subtask({known.name!r}, plan=[…]) with the steps of the plan.",
            )
        plan = storable(plan_document(arguments["plan"]), "plan")
        return self.prepare(known, payload, (), rest)._replace(plan=plan)

    def submit_prepared(
        self,
        prepared: PreparedSubmission,
        *,
        lifecycle: str | None = None,
        source: str = "api",
        key: str | None = None,  # another name of `idempotency_key`
        **fields: Any,
    ) -> Handle[Any]:
        """Queue a job, or with a `lifecycle` a task. `fields` are those of `Intent.using`."""
        actor = c.Actor(f"app:{source}")
        given = {"idempotency_key": key, **prepared.given(), **fields}
        context = self.context(prepared.intent, actor, given.get("options"), lifecycle)
        context = replace(context, traceparent=current_traceparent())
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
        return Handle(engine, job_id, task_id, prepared.returns, actor)

    def context(
        self,
        intent: str,
        actor: c.Actor,
        options: Mapping[str, Any] | None = None,
        lifecycle: str | None = None,
    ) -> Context:
        """What a submission of the intent is checked against.

        An intent of this app is known before a worker has registered it. Only a plan, a checker
        and variants name others.
        """
        core, own = self.installation(), self.intents.get(intent)
        known = lifecycle is None or lifecycle in SHIPPED
        lifecycles = SHIPPED_CHOICES if known else core.lifecycle_choices()
        about = (core.store, core.settings)
        if own is not None and intent not in core.intents:
            row = own.row()
            merged = {**row, **(options or {})}
            others = {"checker", VARIANTS}
            if plan_from(merged, intent) is None and others.isdisjoint(merged):
                return Context(*about, {intent: row}, actor, lifecycles=lifecycles)
        rows = {name: each.row() for name, each in self.intents.items()}
        return Context(*about, {**rows, **core.known_intents()}, actor, lifecycles=lifecycles)

    def installation(self) -> Core:
        """The installation that the app is connected to."""
        if self.core is None:
            raise Misconfigured(
                "the app is not connected to a store.",
                setting="store.url",
                hint="Call app.connect(url) with the store of your workers first.",
            )
        return self.core

    # -- from configuration ----------------------------------------------------------------

    @classmethod
    def from_config(
        cls,
        intents: Mapping[str, Mapping[str, Any]],
        agents: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "App":
        """An app with the intents of a configuration file: commands, agents, Python apps."""
        app = cls()
        app.agents = agents or {}
        for name, row in intents.items():
            try:
                app._add_configured(name, row)
            except Invalid as error:
                raise Misconfigured(error.message, setting=f"intents.{name}") from None
        return app

    def _add_configured(self, name: str, row: Mapping[str, Any]) -> None:
        found = configured_intents.from_row(name, row, self.agents)
        if isinstance(found, str):
            self.include(load_app(found), [name])
        else:
            self._add(name, found.options, handler=found.handler)


def load_app(reference: str) -> App:
    """Import the app that `package.module:name` names; Misconfigured if that is not possible."""
    module_name, _, attribute = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, attribute or "app")
    except Exception as error:  # the module may raise anything while it is imported
        raise Misconfigured(
            f"the app {reference!r} cannot be imported: {type(error).__name__}: {error}",
            setting="app",
            hint=error.hint if isinstance(error, DetentError) else FIND_THE_APP,
        ) from error
    if not isinstance(found, App):
        what = f"{reference!r} is a {type(found).__name__}, not a detent app"
        raise Misconfigured(what, setting="app", hint=FIND_THE_APP)
    return found


def _default_data_dir(url: str) -> str:
    """The directory of an SQLite file; for PostgreSQL the user's data directory."""
    if is_postgres(url):
        return platformdirs.user_data_dir("detent")
    return str(sqlite_path(url).parent)
