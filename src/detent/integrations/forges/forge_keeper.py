"""The forges as trackers of the keeper, with the settings of the installation."""

from collections.abc import Callable

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
from detent.settings import Settings

#: The minimum time between two passes. Each reads the new deliveries and the new events.
PAUSE_S = 0.1


def github_keeper(core: Core, name: str) -> TrackerKeeper:
    return _keeper(core, "github", name, connect_github, github_config(core.settings))


def gitlab_keeper(core: Core, name: str) -> TrackerKeeper:
    return _keeper(core, "gitlab", name, connect_gitlab, gitlab_config(core.settings))


def _keeper(
    core: Core, role: str, name: str, connect: Callable[[Settings], Forge], config: ForgeConfig
) -> TrackerKeeper:
    def start(keeper: TrackerKeeper) -> ForgeSync:
        return ForgeSync(core, connect(core.settings), config, keeper.check_leader)

    return TrackerKeeper(core, role, name, start, pause_s=PAUSE_S)
