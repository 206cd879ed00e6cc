"""The list of operations: what each is called, who may ask for it, and where HTTP finds it."""

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, get_args, get_type_hints

from msgspec import NODEFAULT, UNSET, Struct, UnsetType, structs

from detent.engine import CommandRequest, CommandResult
from detent.errors import DetentError, Forbidden
from detent.kernel.commands import Actor


class Scope(StrEnum):
    """What a token may do. `admin` includes all others."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    REVIEW = "review"
    RUN = "run"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as the server's own record of the token says; never as the request says."""

    name: str
    scopes: frozenset[Scope] = frozenset(Scope)
    #: Only this project, or every one.
    project: str | None = None
    #: The root of the task tree that an agent's run works on.
    root_id: str | None = None
    run_id: str | None = None
    #: The claim that the run stands under: the token dies with it.
    fence: int | None = None
    #: The digest of the token; of a browser's session, of the token that it came from.
    key: str | None = None
    #: Whether a browser's session asks.
    session: bool = False

    @property
    def actor(self) -> Actor:
        return Actor(self.name, self.root_id)

    def must(self, scope: Scope) -> None:
        """Refuse a caller without the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            raise Forbidden(f"{self.name} lacks the scope {scope}", details={"scope": scope.value})


#: The person at the machine itself: the embedded API and the CLI without a gateway.
OWNER = Caller("owner")

T = TypeVar("T")
P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
Result = CommandResult | DetentError


class Posted(NamedTuple, Generic[T]):
    """What a submission asks of the engine, and what it makes of the answers.

    Whoever called waits as it likes: most wait on the spot, the gateway gathers many.
    """

    asks: Sequence[CommandRequest]
    finish: Callable[[Sequence[Result]], T]


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked. The function's keyword parameters are its input."""

    name: str
    scope: Scope
    method: str
    path: str
    function: Callable[..., Any]
    status: int = 200
    #: The parameter that is the whole body, where the body is not an object of all of them.
    whole: str | None = None
    #: The shape of its input where a submission has one; it is checked by `submission.request`.
    request: type[Struct] | None = None
    #: The same without the wait, for what only submits.
    post: Callable[..., Posted[Any]] | None = None
    parameters: tuple[inspect.Parameter, ...] = field(default=(), compare=False)
    #: The shape of its answer.
    answer: Any = field(default=None, compare=False)

    @property
    def summary(self) -> str:
        return (self.function.__doc__ or "").strip().splitlines()[0]

    @property
    def in_path(self) -> tuple[str, ...]:
        """Parameters that stand in the path."""
        names = (each.name for each in self.parameters)
        return tuple(name for name in names if f"{{{name}}}" in self.path)


OPERATIONS: dict[str, Operation] = {}


def operation(
    scope: Scope,
    method: str,
    path: str,
    status: int = 200,
    *,
    whole: str | None = None,
    request: type[Struct] | None = None,
) -> Callable[[F], F]:
    """Put a function `(core, caller, *, …)` on the list; one with a `request` reads it itself."""

    def register(function: F) -> F:
        answer = get_type_hints(function)["return"]
        _enlist(scope, method, path, function, status, request, whole=whole, answer=answer)
        return function

    return register


def submission(
    scope: Scope, method: str, path: str, status: int = 201, *, request: type[Struct]
) -> Callable[[Callable[P, Posted[T]]], Callable[P, T]]:
    """Put a function that says what it asks of the engine on the list, as one that waits for it."""

    def register(function: Callable[P, Posted[T]]) -> Callable[P, T]:
        @wraps(function)
        def wait(*args: P.args, **kwargs: P.kwargs) -> T:
            core: Any = args[0]
            posted = function(*args, **kwargs)
            return posted.finish(core.engine.execute(posted.asks))

        (answer,) = get_args(get_type_hints(function)["return"])
        _enlist(scope, method, path, wait, status, request, post=function, answer=answer)
        return wait

    return register


def _enlist(
    scope: Scope,
    method: str,
    path: str,
    function: Callable[..., Any],
    status: int,
    request: type[Struct] | None,
    **rest: Any,
) -> None:
    whole = rest.get("whole")
    given = parameters_of(function) if request is None or whole else fields_of(request)
    name = cast(Any, function).__name__
    OPERATIONS[name] = Operation(
        name, scope, method, path, function, status, request=request, parameters=given, **rest
    )


def parameters_of(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """The keyword parameters of an operation's function."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        each.replace(annotation=hints[each.name])
        for each in inspect.signature(function).parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    )


def fields_of(request: type[Struct]) -> tuple[inspect.Parameter, ...]:
    """The fields of a request as parameters: those that must be given first."""
    made = [
        inspect.Parameter(
            each.encode_name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=documented(each.type),
            default=_default(each),
        )
        for each in structs.fields(request)
    ]
    return tuple(sorted(made, key=lambda each: each.default is not inspect.Parameter.empty))


def documented(annotation: Any) -> Any:
    """The annotation without msgspec's mark for a value that was not given."""
    choices = [each for each in get_args(annotation) if each is not UnsetType]
    return choices[0] if UnsetType in get_args(annotation) else annotation


def _default(field: structs.FieldInfo) -> Any:
    if field.required:
        return inspect.Parameter.empty
    if field.default is UNSET:
        return {}
    return field.default_factory() if field.default is NODEFAULT else field.default


def call(name: str, core: Any, caller: Caller, /, **arguments: Any) -> Any:
    """Ask for an operation by name: the one way to call it, which checks the scope first."""
    found = OPERATIONS[name]
    caller.must(found.scope)
    return found.function(core, caller, **arguments)


def names(scopes: Collection[Scope]) -> list[str]:
    """The operations that some of these scopes open."""
    return [
        each.name for each in OPERATIONS.values() if each.scope in scopes or Scope.ADMIN in scopes
    ]
