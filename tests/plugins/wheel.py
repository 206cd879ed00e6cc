"""detent as people get it: the wheel, built once, in environments that have nothing else.

The packages that it needs come from the lock file, by the same uv that `./dev` uses.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UV = ROOT / ".tools" / "bin" / "uv"
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
            made[extras] = _environment(tmp_path_factory.mktemp("environment"), wheel, extras)
        return made[extras]

    return install


def build(kind: str, place: Path) -> Path:
    """A wheel or an sdist of this tree."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    subprocess.run([*command, str(place)], cwd=ROOT, capture_output=True, check=True)
    (file,) = place.iterdir()
    return file


def _environment(place: Path, wheel: Path, extras: tuple[str, ...]) -> Path:
    wanted = [word for extra in extras for word in ("--extra", extra)]
    sync = ["sync", "--frozen", "--no-dev", "--no-install-project", "--python", sys.executable]
    uv(*sync, *wanted, UV_PROJECT_ENVIRONMENT=str(place))
    python = ("--python", str(place / "bin" / "python"))
    uv("pip", "install", "--offline", "--no-deps", *python, str(wheel))
    uv("pip", "check", *python)
    return place / "bin"


def uv(*arguments: str, **variables: str) -> None:
    kept = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    command = [str(UV), "--quiet", *arguments]
    subprocess.run(command, cwd=ROOT, env={**kept, **variables}, check=True)
