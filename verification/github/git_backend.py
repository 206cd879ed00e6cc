"""Git over HTTP: `git http-backend` behind a request, with basic authentication by a token."""

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple


class CgiReply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


def token_of(headers: Mapping[str, str]) -> str | None:
    """The password of a request of git."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        return base64.b64decode(given).decode().partition(":")[2]
    except ValueError:
        return None


def serve(
    root: Path, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes
) -> CgiReply:
    """The response of git for the repositories below `root`."""
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REMOTE_USER": "git",
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "GIT_PROTOCOL": headers.get("git-protocol", ""),
    }
    done = subprocess.run(
        ["git", "http-backend"], input=body, env=environment, capture_output=True, check=True
    )
    head, _, content = done.stdout.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(fields.pop("Status", "200").split()[0])
    return CgiReply(status, fields, content)
