"""The settings of a forge: which issues become tasks, and how its pull requests are merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from detent.errors import Misconfigured
from detent.integrations.forges.forge import Forge
from detent.integrations.forges.forge_task import LIFECYCLE
from detent.integrations.forges.issue_tasks import IssueConfig
from detent.operations.forge_deliveries import repositories
from detent.redaction import resolve
from detent.settings import Settings

METHODS = ("merge", "squash", "rebase")


@dataclass(frozen=True, kw_only=True)
class ForgeConfig(IssueConfig):
    """The settings of one forge."""

    lifecycle: str | None = LIFECYCLE
    options: Mapping[str, Any] = field(default_factory=lambda: {"on_accept": "push"})
    #: How detent merges; empty: people do.
    merge: str = ""


def uses_github(settings: Settings) -> bool:
    return bool(settings.github_token)


def uses_gitlab(settings: Settings) -> bool:
    return bool(settings.gitlab_token)


def github_config(settings: Settings) -> ForgeConfig:
    """The settings of GitHub, checked."""
    return _config(settings, "github", METHODS)


def gitlab_config(settings: Settings) -> ForgeConfig:
    """The settings of GitLab, checked. A project decides itself whether merges are rebased."""
    return _config(settings, "gitlab", ("merge", "squash"))


def _config(settings: Settings, forge: str, methods: tuple[str, ...]) -> ForgeConfig:
    def given(name: str) -> Any:
        return getattr(settings, f"{forge}_{name}")

    if given("merge") not in ("", *methods):
        raise Misconfigured(
            f"{forge}.merge must be one of {', '.join(methods)} or empty, not {given('merge')!r}.",
            setting=f"{forge}.merge",
        )
    return ForgeConfig(
        repositories=repositories(given("repositories"), f"{forge}.repositories"),
        label=given("label"),
        assignee=given("assignee"),
        command=given("command"),
        merge=given("merge"),
        interval_ms=given("interval_ms"),
    )


def connect_github(settings: Settings) -> Forge:
    """A connection with the token that the settings name; its library is an extra."""
    if not settings.github_token:
        raise Misconfigured(
            "GitHub is not configured.",
            setting="github.token",
            hint="Set github.token to env:NAME or file:PATH.",
        )
    try:
        from detent.integrations.forges.github_forge import GitHubForge
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"github.token is set, but the package {error.name} is not installed.",
            setting="github.token",
            hint="Install it with: pip install 'detent[github]'",
        ) from None
    return GitHubForge(settings.github_url, resolve(settings.github_token, "github.token"))


def connect_gitlab(settings: Settings) -> Forge:
    """A connection with the token that the settings name; its library is an extra."""
    if not settings.gitlab_token:
        raise Misconfigured(
            "GitLab is not configured.",
            setting="gitlab.token",
            hint="Set gitlab.token to env:NAME or file:PATH.",
        )
    try:
        from detent.integrations.forges.gitlab_forge import GitLabForge
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"gitlab.token is set, but the package {error.name} is not installed.",
            setting="gitlab.token",
            hint="Install it with: pip install 'detent[gitlab]'",
        ) from None
    return GitLabForge(settings.gitlab_url, resolve(settings.gitlab_token, "gitlab.token"))
