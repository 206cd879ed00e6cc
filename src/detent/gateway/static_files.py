"""The built files of the dashboard, which a browser loads before its user signs in.

They hold no data, so they need no token. The directory `dashboard` of the package is read once.
"""

import gzip
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

BUILT = Path(__file__).resolve().parent.parent / "dashboard"
INDEX = "/index.html"
#: Files below this path have a digest of their content in their name.
HASHED = "/assets/"
#: Paths of the API: they never get the page, even where there is no route.
NOT_PAGES = ("/api/", "/a2a", "/mcp", "/metrics", "/.well-known/")
#: Scripts, styles and connections of this origin only; no text becomes markup or script.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; "
    "img-src 'self' blob:; "
    "connect-src 'self' ws://{host} wss://{host}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
#: Media types that the tables of the machine may lack.
MEDIA_TYPES = {".woff2": "font/woff2"}
UNKNOWN = "application/octet-stream"
NOT_BUILT = b"""<!doctype html><html lang="en"><title>detent</title><p>The dashboard is not built.
In a clone of the repository, <code>./dev up</code> builds it; an installed package has it.</p>
"""


@dataclass
class _File:
    """One built file; it is compressed at the first request for it."""

    content: bytes
    media_type: str
    caching: str

    @cached_property
    def compressed(self) -> bytes:
        return gzip.compress(self.content, 9, mtime=0)


class Page:
    """The paths of the dashboard and of its files."""

    def __init__(self, directory: Path = BUILT) -> None:
        self._files = _read(directory)
        if INDEX not in self._files:
            self._files = {INDEX: _File(NOT_BUILT, "text/html", "no-cache")}

    def find(self, scope: Scope, host: str, is_route: Callable[[str], bool]) -> Response | None:
        """The response if the path is a file or a page of the dashboard; pages are the index."""
        path, headers = scope["path"], Headers(scope=scope)
        file = self._files.get(path)
        if file is None and _is_page(path, headers) and not is_route(path):
            file = self._files[INDEX]
        return None if file is None else _response(file, headers, host)


def _is_page(path: str, headers: Headers) -> bool:
    """Whether a browser opens this path as a page; programs do not accept HTML."""
    if path.startswith((*NOT_PAGES, HASHED)):
        return False
    return path == "/" or "text/html" in headers.get("accept", "")


def _read(directory: Path) -> Mapping[str, _File]:
    if not directory.is_dir():
        return {}
    return {
        "/" + file.relative_to(directory).as_posix(): _file(directory, file)
        for file in sorted(directory.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    }


def _file(directory: Path, file: Path) -> _File:
    path = "/" + file.relative_to(directory).as_posix()
    media_type = MEDIA_TYPES.get(file.suffix) or mimetypes.guess_type(file.name)[0] or UNKNOWN
    hashed = path.startswith(HASHED)
    caching = "public, max-age=31536000, immutable" if hashed else "no-cache"
    return _File(file.read_bytes(), media_type, caching)


def _response(file: _File, headers: Headers, host: str) -> Response:
    response = Response(file.content, media_type=file.media_type)
    if "gzip" in headers.get("accept-encoding", ""):
        response = Response(file.compressed, media_type=file.media_type)
        response.headers["content-encoding"] = "gzip"
    response.headers["vary"] = "accept-encoding"
    response.headers["cache-control"] = file.caching
    response.headers["content-security-policy"] = POLICY.format(host=host)
    response.headers["x-frame-options"] = "DENY"
    response.headers["permissions-policy"] = "camera=(), geolocation=(), microphone=()"
    response.headers["cross-origin-opener-policy"] = "same-origin"
    return response
