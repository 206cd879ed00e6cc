"""One line starts detent from a package index, with nothing installed: by uvx, and by pipx."""

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import wait_until
from tests.packaging.local_index import closure, index_of, served, wheel_of
from tools.package import UV


@pytest.fixture(scope="module")
def index(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("index")
    files = directory / "files"
    files.mkdir()
    needed = [wheel_of(name, files) for name in sorted({"pip", *closure("detent")})]
    index_of([Path(shutil.copy(wheel, files)), *needed], directory)
    with served(directory) as address:
        yield address


def started(command: list[str], home: Path, **variables: str) -> None:
    """The command starts detent, which serves its page, and ends well after SIGTERM."""
    up = subprocess.Popen(
        [*command, "up", "--port", "0"],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **variables},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    server = home / ".local" / "share" / "detent" / "server.json"
    try:
        wait_until(lambda: server.exists() or up.poll() is not None, "it serves")
        assert up.poll() is None
        found = json.loads(server.read_text())
        with urllib.request.urlopen(found["url"]) as page:
            assert b"<title>" in page.read()
        os.kill(found["pid"], 15)
        up.wait(240)
    finally:
        if up.poll() is None:
            os.killpg(up.pid, 9)
            up.wait(240)
    assert not server.exists()


def test_uvx_starts_detent(index: str, tmp_path: Path) -> None:
    command = [str(UV), "tool", "run", "--python", sys.executable, "detent"]
    cache = str(tmp_path / "cache")
    started(command, tmp_path, UV_DEFAULT_INDEX=index, UV_CACHE_DIR=cache, UV_NO_CONFIG="1")


def test_pipx_starts_detent(index: str, tmp_path: Path) -> None:
    variables = {"PIP_INDEX_URL": index, "PIP_CONFIG_FILE": os.devnull, "PIPX_HOME": str(tmp_path)}
    python = ["--python", sys.executable, "--backend", "pip"]
    started([sys.executable, "-m", "pipx", "run", *python, "detent"], tmp_path, **variables)
