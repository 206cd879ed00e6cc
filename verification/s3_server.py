"""A real server that speaks S3, on loopback: SeaweedFS, in one process."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from obstore.store import S3Store

READY_S = 60.0
#: Roles of the process; each listens on a port for HTTP and on one for gRPC.
ROLES = ("master", "volume", "filer", "s3")


class Key(NamedTuple):
    """An access key."""

    id: str
    secret: str


ADMIN, WRITER, READER = (Key(name, f"secret of {name}") for name in ("admin", "writer", "reader"))
RIGHTS = {ADMIN: ["Admin"], WRITER: ["Read", "Write", "List"], READER: ["Read", "List"]}
BUCKET = "detent"


class S3Server(NamedTuple):
    """A server with an empty bucket."""

    endpoint: str
    bucket: str = BUCKET


@contextmanager
def s3_server(directory: Path, ports: Sequence[int]) -> Iterator[S3Server]:
    """Start a server that keeps its data in a directory; `ports` are eight free ones."""
    config = directory / "s3.json"
    config.write_text(json.dumps({"identities": [_identity(*each) for each in RIGHTS.items()]}))
    numbers = iter(ports)
    listening = [f"-{role}.port{kind}={next(numbers)}" for role in ROLES for kind in ("", ".grpc")]
    argv = [
        *(str(_program()), "server", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *("-filer", "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0"),
        "-master.telemetry=false",  # it would send statistics to the makers of the server
        *("-volume.max=20", "-master.volumeSizeLimitMB=64", *listening),
    ]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(argv, stdout=log, stderr=log, cwd=directory)
    try:
        endpoint = f"http://127.0.0.1:{ports[6]}"
        _wait(process, endpoint)
        _create_bucket(endpoint)
        yield S3Server(endpoint)
    finally:
        process.kill()
        process.wait()


def _identity(key: Key, actions: list[str]) -> dict[str, Any]:
    credentials = [{"accessKey": key.id, "secretKey": key.secret}]
    return {"name": key.id, "credentials": credentials, "actions": actions}


def _create_bucket(endpoint: str) -> None:
    """The server creates a missing bucket with the first object that an administrator stores."""
    store = S3Store(
        BUCKET,
        config={"endpoint": endpoint, "region": "us-east-1"},
        access_key_id=ADMIN.id,
        secret_access_key=ADMIN.secret,
        client_options={"allow_http": True},
    )
    store.put("first", b"")
    store.delete("first")


def _program() -> Path:
    """The server's executable, which its package installs beside the interpreter."""
    return Path(sys.executable).with_name("weed")


def _wait(process: "subprocess.Popen[bytes]", endpoint: str) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            urlopen(endpoint, timeout=1).close()
            return
        except HTTPError:
            return  # it responds
        except (URLError, OSError):
            assert process.poll() is None, "the S3 server has ended"
            assert time.monotonic() < deadline, "the S3 server does not start"
            time.sleep(0.05)
