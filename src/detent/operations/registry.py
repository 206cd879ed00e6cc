"""The registry of operations: the name, the scope and the HTTP route of each."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Any, Generic, NamedTuple, TypeVar, cast, get_args, get_type_hints

from msgspec import NODEFAULT, UNSET, Struct, UnsetType, structs

from detent.engine import CommandRequest, CommandResult
from detent.errors import DetentError, Forbidden
from detent.kernel.commands import Actor


class Scope(StrEnum):
    """The scopes of a token. `admin` includes all others."""

    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    REVIEW = "review"
    RUN = "run"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller, from the server's record of its token, never from the request."""

    name: str
    scopes: frozenset[Scope] = frozenset(Scope)
    #: The only project that the caller may use; None for all.
    project: str | None = None
    #: The root of the task tree that an agent's run works on.
    root_id: str | None = None
    run_id: str | None = None
    #: The fence of the run's claim: the token is valid only under this claim.
    fence: int | None = None
    #: The digest of the token; for a browser session, of the token that it was created with.
    key: str | None = None
    #: The digest of the session or login that the caller is; None for a token.
    session: str | None = None
    #: The projects in which the session of a person can continue; None is all of them together.
    projects: tuple[str | None, ...] = ()

    @property
    def actor(self) -> Actor:
        return Actor(self.name, self.root_id)

    def may_see(self, project: str | None) -> bool:
        """Whether the caller may see things of a project; those of none need access to all."""
        return self.project in (None, project)

    def require(self, scope: Scope) -> None:
        """Raise Forbidden unless the caller has the scope."""
        if scope not in self.scopes and Scope.ADMIN not in self.scopes:
            raise Forbidden(
                f"{self.name} does not have the scope {scope}.", details={"scope": scope.value}
            )


#: Calls an operation, by its name and with its arguments, for one caller.
CallOperation = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
#: The caller of the embedded API and of the CLI without a gateway, with all scopes.
OWNER = Caller("owner")

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Result = CommandResult | DetentError


class PreparedSubmission(NamedTuple, Generic[T]):
    """The engine requests of a submission, and the function that turns the results into a response.

    The caller decides how to wait: most wait immediately, the gateway waits for many together.
    """

    requests: Sequence[CommandRequest]
    finish: Callable[[Sequence[Result]], T]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. The keyword parameters of its function are its input."""

    name: str
    scope: Scope
    method: str
    path: str
    function: Callable[..., Any]
    status: int = 200
    #: The parameter that is the whole request body, if the body is not an object of all parameters.
    whole: str | None = None
    #: The type of a submission's input; `submission.request` checks it.
    request: type[Struct] | None = None
    #: For submissions: prepares the engine requests without waiting for their results.
    prepare: Callable[..., PreparedSubmission[Any]] | None = None
    parameters: tuple[inspect.Parameter, ...] = field(default=(), compare=False)
    #: The type of its response.
    response: Any = field(default=None, compare=False)

    @property
    def summary(self) -> str:
        return (self.function.__doc__ or "").strip().splitlines()[0]

    @property
    def in_path(self) -> tuple[str, ...]:
        """The parameters that are part of the path."""
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
    """Register a function `(core, caller, *, …)`; one with a `request` parses its input itself."""

    def register(function: F) -> F:
        response = get_type_hints(function)["return"]
        _register(scope, method, path, function, status, request, whole=whole, response=response)
        return function

    return register


def submission(
    scope: Scope, method: str, path: str, status: int = 201, *, request: type[Struct]
) -> Callable[[Callable[..., PreparedSubmission[T]]], Callable[..., T]]:
    """Register a function that prepares a submission, as an operation that waits for the result.

    The function also gets the context that the submission is checked against.
    """

    def register(function: Callable[..., PreparedSubmission[T]]) -> Callable[..., T]:
        @wraps(function)
        def wait(core: Any, caller: Caller, /, **given: Any) -> T:
            prepared = function(core, caller, core.submission_context(caller), **given)
            return prepared.finish(core.engine.execute(prepared.requests))

        (response,) = get_args(get_type_hints(function)["return"])
        _register(scope, method, path, wait, status, request, prepare=function, response=response)
        return wait

    return register


def _register(
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
    """The keyword parameters of an operation's function, with their resolved types."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(
        each.replace(annotation=hints[each.name])
        for each in inspect.signature(function).parameters.values()
        if each.kind is inspect.Parameter.KEYWORD_ONLY
    )


def fields_of(request: type[Struct]) -> tuple[inspect.Parameter, ...]:
    """The fields of a request as parameters, the required ones first."""
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
    """The annotation without msgspec's marker for a missing value."""
    choices = [each for each in get_args(annotation) if each is not UnsetType]
    return choices[0] if UnsetType in get_args(annotation) else annotation


def _default(field: structs.FieldInfo) -> Any:
    if field.required:
        return inspect.Parameter.empty
    if field.default is UNSET:
        return {}
    return field.default_factory() if field.default is NODEFAULT else field.default


def call(name: str, core: Any, caller: Caller, /, **arguments: Any) -> Any:
    """Call an operation by name after checking the caller's scope."""
    found = OPERATIONS[name]
    caller.require(found.scope)
    return found.function(core, caller, **arguments)
