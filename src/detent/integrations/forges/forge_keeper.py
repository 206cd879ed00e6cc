"""A forge as a tracker of the keeper: polls it at an interval, and processes deliveries between."""

from detent.integrations.forges.forge import Forge
from detent.integrations.forges.forge_config import (
    ForgeConfig,
    connect_github,
    connect_gitlab,
    github_config,
    gitlab_config,
)
from detent.integrations.forges.forge_sync import ForgeSync
from detent.integrations.tracker_keeper import TrackerKeeper
from detent.operations.context import Core

#: The minimum time between two passes. Each reads the new deliveries and the new events.
PAUSE_S = 0.1


class ForgeTracker:
    """The passes of a forge."""

    def __init__(self, keeper: TrackerKeeper, forge: Forge, config: ForgeConfig) -> None:
        self._forge, self._config = forge, config
        self._sync = ForgeSync(keeper.core, forge, config, keeper.check_leader)
        self._next_poll = 0

    def run(self, now: int, /, *, fresh: bool) -> bool:
        poll = fresh or now >= self._next_poll
        more = self._sync.run(poll=poll)
        if poll:
            self._next_poll = now + self._config.interval_ms * 1_000
        return more

    def close(self) -> None:
        self._forge.close()


def github_keeper(core: Core, name: str) -> TrackerKeeper:
    """GitHub, with the settings of this installation."""
    config = github_config(core.settings)

    def connect(keeper: TrackerKeeper) -> ForgeTracker:
        return ForgeTracker(keeper, connect_github(core.settings), config)

    return TrackerKeeper(core, "github", name, connect, pause_s=PAUSE_S)


def gitlab_keeper(core: Core, name: str) -> TrackerKeeper:
    """GitLab, with the settings of this installation."""
    config = gitlab_config(core.settings)

    def connect(keeper: TrackerKeeper) -> ForgeTracker:
        return ForgeTracker(keeper, connect_gitlab(core.settings), config)

    return TrackerKeeper(core, "gitlab", name, connect, pause_s=PAUSE_S)
