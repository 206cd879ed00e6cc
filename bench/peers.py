"""An environment of their own for the libraries that detent is measured against.

Made once below .cache, from pinned versions, by the uv of this clone; nothing of it reaches the
environment that detent runs in.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ("python-statemachine==3.2.2", "six==1.17.0", "transitions==0.9.3")


def python() -> Path:
    """The interpreter of the peers' environment, which is made if it is not there yet."""
    name = hashlib.sha256(" ".join((sys.version, *PINS)).encode()).hexdigest()[:12]
    home = ROOT / ".cache" / "bench" / f"peers-{name}"
    interpreter = home / "bin" / "python"
    if not (home / "complete").exists():
        _uv("venv", "--clear", "--python", sys.executable, str(home))
        _uv("pip", "install", "--no-deps", "--python", str(interpreter), *PINS)
        (home / "complete").touch()
    return interpreter


def _uv(*arguments: str) -> None:
    tool = ROOT / ".tools" / "bin" / "uv"
    if not tool.exists():
        sys.exit("bench: there is no uv in .tools; run the benchmarks by ./dev bench")
    subprocess.run([str(tool), "--quiet", *arguments], check=True)
