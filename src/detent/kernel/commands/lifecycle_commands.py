"""Commands about installed lifecycles."""

from collections.abc import Mapping
from typing import Any

from detent.kernel.commands.command_types import Command
from detent.kernel.frozen_value import value


class LifecycleCommand(Command):
    __slots__ = ()


@value
class InstallLifecycle(LifecycleCommand):
    """Install a lifecycle or a new version of one. The same document again changes nothing."""

    document: Mapping[str, Any]


@value
class RemoveLifecycle(LifecycleCommand):
    """Remove a lifecycle with all its versions; refused while tasks have it."""

    name: str
