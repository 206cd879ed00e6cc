"""Checks of `detent doctor` on the forges: their settings and their tokens."""

from collections.abc import Iterator

from detent.cli.finding import Finding
from detent.errors import DetentError
from detent.integrations.forges.forge_config import (
    connect_github,
    github_config,
    uses_github,
)
from detent.operations.forge_deliveries import HOOKS
from detent.redaction import resolve
from detent.settings import Settings, name

GITHUB = "github"


def github(settings: Settings) -> Iterator[Finding]:
    """Whether GitHub accepts the token, and the settings are complete."""
    if not uses_github(settings):
        return
    try:
        config = github_config(settings)
        forge = connect_github(settings)
        account = forge.account()
        forge.close()
    except DetentError as error:
        yield Finding(GITHUB, False, error.message, error.hint or "")
        return
    if not config.repositories:
        remedy = "Set github.repositories to a list of OWNER/NAME=INTENT."
        yield Finding(GITHUB, False, "github.repositories is empty.", remedy)
        return
    listed = ", ".join(config.repositories)
    yield Finding(GITHUB, True, f"the account {account} works on {listed}")
    yield from _hook(settings)


def _hook(settings: Settings) -> Iterator[Finding]:
    hook = HOOKS[GITHUB]
    reference = getattr(settings, hook.secret)
    if not reference:
        what = f"{name(hook.secret)} is not set: GitHub is polled only"
        yield Finding(f"{GITHUB} webhook", True, what)
        return
    try:
        resolve(reference, name(hook.secret))
    except DetentError as error:
        yield Finding(f"{GITHUB} webhook", False, error.message, error.hint or "")
    else:
        yield Finding(f"{GITHUB} webhook", True, f"deliveries are accepted at {hook.path}")
