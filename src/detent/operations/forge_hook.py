"""The description of a forge's webhook: how its deliveries are checked and read. Data only."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Headers = Mapping[str, str]


class Named(NamedTuple):
    """What a delivery is about. Its content is not used: the current state is read instead."""

    repo: str
    branches: tuple[str, ...] = ()
    #: Numbers of issues and pull requests.
    numbers: tuple[int, ...] = ()


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
