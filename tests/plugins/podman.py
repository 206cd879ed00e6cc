"""podman for tests: storage of its own, and a small base image of Debian's packages.

mmdebstrap makes the base once for all processes of a session; it takes a quarter of a minute.
"""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from verification.memory_directory import directory_in_memory

#: Has busybox as its shell, and Python.
BASE = "localhost/detent-test:1"
PACKAGES = "busybox-static,ca-certificates,python3,tzdata"
#: runc, because crun does not run where both versions of cgroups have controllers.
ENGINE = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""
STORAGE = """
[storage]
driver = "{driver}"
graphroot = "{home}/images"
runroot = "{home}/state"
"""


def ran(argv: list[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def base_archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the base image, which the processes of a parallel session share."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    archive = directory / "base.tar"
    with (directory / "base.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            draft = archive.with_suffix(".part.tar")
            extract = ["--variant=extract", f"--include={PACKAGES}", "bookworm", str(draft)]
            ran(["mmdebstrap", "--mode=root", *extract])
            draft.rename(archive)
    return archive


@pytest.fixture(scope="session")
def podman(base_archive: Path) -> Iterator[None]:
    """podman with storage of its own, in memory, and the base image."""
    with directory_in_memory("detent-podman-") as home:
        yield from _podman(home, base_archive)


def _podman(home: Path, base_archive: Path) -> Iterator[None]:
    storage = STORAGE.format(home=home, driver=_driver(home))
    files = {"CONTAINERS_CONF": ENGINE, "CONTAINERS_STORAGE_CONF": storage}
    for name, text in files.items():
        (home / name).write_text(text)
        os.environ[name] = str(home / name)
    try:
        ran(["podman", "import", str(base_archive), BASE])
        yield
    finally:
        subprocess.run(["podman", "rm", "--force", "--all"], capture_output=True, check=False)
        subprocess.run(["umount", f"{home}/images/overlay"], capture_output=True, check=False)
        for name in files:
            del os.environ[name]


def _driver(home: Path) -> str:
    """`overlay`, which starts a container without a copy of its image; `vfs` where it fails."""
    places = {name: home / "trial" / name for name in ("lower", "upper", "work", "merged")}
    for place in places.values():
        place.mkdir(parents=True)
    options = ",".join(f"{name}dir={places[name]}" for name in ("lower", "upper", "work"))
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(places["merged"])]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        return "vfs"
    ran(["umount", str(places["merged"])])
    return "overlay"
