"""Roles of people per project, and the scopes that a role gives. Pure functions.

The setting `oidc.roles` maps groups and people to roles: `GROUP=ROLE` for all projects,
`GROUP=ROLE:PROJECT` for one, and `user:NAME=ROLE` for one person. Nothing else gives a person a
role, so that the configuration is the whole list.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from detent.errors import Misconfigured
from detent.operations.registry import Scope

ROLES: Mapping[str, frozenset[Scope]] = {
    "viewer": frozenset({Scope.READ}),
    "operator": frozenset({Scope.READ, Scope.SUBMIT, Scope.OPERATE}),
    "reviewer": frozenset({Scope.READ, Scope.SUBMIT, Scope.REVIEW}),
    "admin": frozenset(Scope),
}
SETTING = "oidc.roles"
_GRANT = re.compile(r"(user:)?([^=]+)=([a-z]+)(?::(.+))?")


class Grant(NamedTuple):
    """One line of the mapping. `project` is None for all projects."""

    #: The name of a group, or of a person if `person` is true.
    subject: str
    person: bool
    role: str
    project: str | None

    @property
    def text(self) -> str:
        return self.role if self.project is None else f"{self.role}:{self.project}"


def grants_from(lines: Iterable[str]) -> tuple[Grant, ...]:
    """The mapping in the settings; refused if a line is none."""
    return tuple(map(_grant, lines))


def _grant(line: str) -> Grant:
    found = _GRANT.fullmatch(line.strip())
    if found is None or found[3] not in ROLES:
        raise Misconfigured(
            f"{SETTING}: {line!r} must be GROUP=ROLE, GROUP=ROLE:PROJECT or user:NAME=ROLE, with "
            f"one of the roles {', '.join(ROLES)}.",
            setting=SETTING,
        )
    return Grant(found[2].strip(), found[1] is not None, found[3], found[4])


def granted(grants: Iterable[Grant], name: str, groups: Collection[str]) -> list[Grant]:
    """The lines that apply to a person with this name and these groups."""
    return [
        each for each in grants if (each.subject == name if each.person else each.subject in groups)
    ]


def projects_of(applying: Collection[Grant]) -> list[str | None]:
    """What a person can work in: None for all projects together, then single projects by name."""
    everywhere: list[str | None] = [None] if any(each.project is None for each in applying) else []
    return [*everywhere, *sorted({each.project for each in applying if each.project is not None})]


def scopes_in(applying: Iterable[Grant], project: str | None) -> frozenset[Scope]:
    """The scopes in one project, or for None in all projects together."""
    scopes: frozenset[Scope] = frozenset()
    for each in applying:
        if each.project in (None, project):
            scopes |= ROLES[each.role]
    return scopes
