"""Builds the dashboard on the way into an sdist or wheel, unless it is built already."""

import importlib.util
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class DashboardHook(BuildHookInterface[Any]):
    """An sdist carries the built page, so that a wheel made from it needs no Node."""

    PLUGIN_NAME = "custom"

    def initialize(self, *_: Any) -> None:
        file = Path(self.root) / "tools" / "web.py"
        spec = importlib.util.spec_from_file_location("web", file)
        assert spec is not None
        assert spec.loader is not None
        web = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(web)
        web.build()
