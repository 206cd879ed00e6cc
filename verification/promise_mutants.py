"""Deliberately broken variants for guarantees that no other layer breaks, each with its check."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw

from detent.allowed_hosts import AllowedHost, allowed_hosts, name_refusal
from detent.errors import Misconfigured, NotFound, TooLarge
from detent.gateway import strict_json
from detent.kernel.decide import review
from detent.operations import cursor_pages
from detent.operations.registry import Caller
from detent.settings import Settings
from detent.store.sqlite import SqliteStore, checks
from verification.mutant import Mutant, Patches

# ---- mutants ---------------------------------------------------------------------------------


def limits_of_bodies_are_not_checked() -> Patches:
    """A body is accepted however long its texts are and however deep it is."""
    yield patch.object(strict_json, "_walk", lambda *_: None)


def any_sqlite_is_used() -> Patches:
    """A version of SQLite that may lose commits is used."""
    yield patch.object(checks, "check_version", lambda _: None)


def verdict_ignores_the_diff() -> Patches:
    """A verdict is accepted although the task has new results since its diff was reviewed."""

    def same(_draft: Any, _task: Any, reviewed: Any) -> str | None:
        return None if reviewed is None else str(reviewed.sha256)

    yield patch.object(review, "same_diff", same)


def every_host_is_allowed() -> Patches:
    """The proxy of the sandbox does not compare the name of a host."""
    yield patch.object(AllowedHost, "covers_name", lambda *_: True)


def projects_are_not_compared() -> Patches:
    """A token of one project may name another project in a filter."""

    def of_project(_: Caller, where: dict[str, Any], project: str | None) -> dict[str, Any]:
        return where if project is None else {**where, "project": project}

    yield patch.object(cursor_pages, "of_project", of_project)


# ---- checks ----------------------------------------------------------------------------------


def refuses(expected: type[Exception], action: Callable[[], object]) -> None:
    try:
        action()
    except expected:
        return
    raise AssertionError(f"{expected.__name__} was not raised")


def long_texts_are_refused() -> None:
    limits = strict_json.Limits.of(Settings())
    for body in (b'"' + b"x" * (limits.text + 1) + b'"', b"[" * 65 + b"]" * 65):
        refuses(TooLarge, lambda body=body: strict_json.decode(body, limits))  # type: ignore[misc]


def an_old_sqlite_is_refused() -> None:
    with (
        tempfile.TemporaryDirectory() as made,
        patch.object(apsw, "sqlite_lib_version", lambda: "3.51.2"),
    ):
        refuses(Misconfigured, lambda: SqliteStore(Path(made) / "detent.db").close())


def other_hosts_are_refused() -> None:
    allowed = allowed_hosts(["api.example.com"], "hosts")
    assert name_refusal("api.example.com", 443, allowed) is None
    assert name_refusal("evil.example", 443, allowed) is not None


def other_projects_are_hidden() -> None:
    ours = Caller("ann", project="ours")
    refuses(NotFound, lambda: cursor_pages.of_project(ours, {}, "theirs"))
    assert cursor_pages.of_project(ours, {}, None) == {"project": "ours"}


MUTANTS: Mapping[str, Mutant] = {
    each.patches.__name__.replace("_", "-"): each
    for each in (
        Mutant(limits_of_bodies_are_not_checked, long_texts_are_refused),
        Mutant(any_sqlite_is_used, an_old_sqlite_is_refused),
        Mutant(verdict_ignores_the_diff),
        Mutant(every_host_is_allowed, other_hosts_are_refused),
        Mutant(projects_are_not_compared, other_projects_are_hidden),
    )
}
