"""detent as people get it: the wheel, built once, in environments that have nothing else.

The packages that it needs come from the lock file, by the same uv that `./dev` uses.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.package import build, uv

ROOT = Path(__file__).resolve().parents[2]
#: The directory with the programs of an environment that has these extras.
Installed = Callable[..., Path]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    """Makes an environment with the wheel and some of its extras, each once."""
    made: dict[tuple[str, ...], Path] = {}

    def install(*extras: str) -> Path:
        if extras not in made:
            made[extras] = environment(tmp_path_factory.mktemp("environment"), wheel, extras)
        return made[extras]

    return install


def environment(place: Path, wheel: Path, extras: tuple[str, ...]) -> Path:
    """The programs of a new environment with a wheel and some of its extras."""
    wanted = [word for extra in extras for word in ("--extra", extra)]
    sync = ["sync", "--frozen", "--no-dev", "--no-install-project", "--python", sys.executable]
    uv(*sync, *wanted, UV_PROJECT_ENVIRONMENT=str(place))
    python = ("--python", str(place / "bin" / "python"))
    uv("pip", "install", "--offline", "--no-deps", *python, str(wheel))
    uv("pip", "check", *python)
    return place / "bin"
