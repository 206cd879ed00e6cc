"""Checks of `detent doctor` on the forges: their settings and their tokens."""

from collections.abc import Callable, Iterator

from detent.cli.finding import Finding
from detent.errors import DetentError
from detent.integrations.forges.forge import Forge
from detent.integrations.forges.forge_config import (
    ForgeConfig,
    connect_github,
    connect_gitlab,
    github_config,
    gitlab_config,
    uses_github,
    uses_gitlab,
)
from detent.operations.forge_deliveries import HOOKS
from detent.redaction import resolve
from detent.settings import Settings, name


def forges(settings: Settings) -> Iterator[Finding]:
    """Whether each forge accepts its token, and its settings are complete."""
    if uses_github(settings):
        yield from _forge(settings, "github", github_config, connect_github)
    if uses_gitlab(settings):
        yield from _forge(settings, "gitlab", gitlab_config, connect_gitlab)


def _forge(
    settings: Settings,
    forge: str,
    configure: Callable[[Settings], ForgeConfig],
    connect: Callable[[Settings], Forge],
) -> Iterator[Finding]:
    try:
        config = configure(settings)
        connection = connect(settings)
        try:
            account = connection.account()
        finally:
            connection.close()
    except DetentError as error:
        yield Finding(forge, False, error.message, error.hint or "")
        return
    if not config.repositories:
        remedy = f"Set {forge}.repositories to a list of OWNER/NAME=INTENT."
        yield Finding(forge, False, f"{forge}.repositories is empty.", remedy)
        return
    listed = ", ".join(config.repositories)
    yield Finding(forge, True, f"the account {account} works on {listed}")
    yield _hook(settings, forge)


def _hook(settings: Settings, forge: str) -> Finding:
    hook, where = HOOKS[forge], f"{forge} webhook"
    setting = name(hook.secret)
    reference = getattr(settings, hook.secret)
    if not reference:
        return Finding(where, True, f"{setting} is not set: the keeper polls only")
    try:
        resolve(reference, setting)
    except DetentError as error:
        return Finding(where, False, error.message, error.hint or "")
    return Finding(where, True, f"deliveries are accepted at {hook.path}")
