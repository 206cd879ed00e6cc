"""The description of a forge's webhook: how its deliveries are checked and read. Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Headers = Mapping[str, str]


class Named(NamedTuple):
    """What a delivery is about. Its content is not used: the current state is read instead."""

    repo: str
    branches: tuple[str, ...] = ()
    #: Numbers of issues, and of pull requests: some forges number both separately.
    issues: tuple[int, ...] = ()
    requests: tuple[int, ...] = ()


class Hook(NamedTuple):
    """A webhook, with the names of its settings. The names of headers are in lower case."""

    forge: str
    #: The settings with the secret and with the repositories.
    secret: str
    repositories: str
    #: Whether a delivery has the secret, or is signed with it.
    signed: Callable[[str, Headers, bytes], bool]
    #: The id of a delivery, which is the same when it is sent again; None if it has none.
    ident: Callable[[Headers], str | None]
    named: Callable[[Headers, Any], Named | None]

    @property
    def path(self) -> str:
        return f"/hooks/{self.forge}"


def value_at(value: Any, path: tuple[str, ...]) -> Any:
    """The value at a path in a payload; None if the payload has no such path."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def names(found: Iterable[Any]) -> tuple[str, ...]:
    """The texts among values of a payload, each once."""
    return tuple(sorted({each for each in found if isinstance(each, str)}))


def numbers(found: Iterable[Any]) -> tuple[int, ...]:
    """The whole numbers among values of a payload, each once."""
    return tuple(sorted({each for each in found if type(each) is int}))
