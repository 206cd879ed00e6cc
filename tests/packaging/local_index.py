"""A package index (PEP 503) on loopback, with detent's wheel and everything that it needs.

No other index is reached: the wheels of the dependencies are made again from installed packages.
"""

import functools
import html
import re
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import Parser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


def closure(name: str) -> set[str]:
    """The names of all packages that a package needs here, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        each = waiting.pop()
        for text in metadata.requires(each) or ():
            wanted = Requirement(text)
            if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                normal = _normal(wanted.name)
                if normal not in found:
                    found.add(normal)
                    waiting.append(normal)
    return found


def wheel_of(name: str, directory: Path) -> Path:
    """The wheel of an installed package, from the files that its RECORD lists."""
    package = metadata.distribution(name)
    about = Parser().parsestr(package.read_text("WHEEL") or "")
    tags = [tag.split("-") for tag in about.get_all("Tag", [])]
    compressed = "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))
    title = f"{package.name.replace('-', '_')}-{package.version}"
    file = directory / f"{title}-{compressed}.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for each in package.files or ():
            inside = ".." not in each.parts and each.suffix != ".pyc"
            if inside and each.name not in ("INSTALLER", "REQUESTED", "uv_cache.json"):
                archive.write(str(each.locate()), str(each))
    return file


def index_of(wheels: list[Path], directory: Path) -> None:
    """The pages of the index: one for each package, with links to its files."""
    for wheel in wheels:
        page = directory / "simple" / _normal(wheel.name.split("-")[0]) / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        (page.parent / wheel.name).hardlink_to(wheel)
        name = html.escape(wheel.name)
        page.write_text(f'<!DOCTYPE html><html><body><a href="{name}">{name}</a></body></html>')


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """The address of the index while a thread serves it."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(directory))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/simple/"
        finally:
            server.shutdown()
            thread.join()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
