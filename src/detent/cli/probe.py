"""`detent probe`: whether one part of detent works on this machine, for health checks."""

import http.client
import socket
from collections.abc import Callable, Mapping

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.target import load_local
from detent.errors import Unavailable
from detent.settings import Loaded

TIMEOUT_S = 5.0
LOOPBACK = "127.0.0.1"
#: Addresses on which a server listens for every address of the machine.
ANY = ("0.0.0.0", "::", "")


@click.command()
@click.argument("part", type=click.Choice(["gateway", "worker", "keeper"]))
@output.json_option
def probe(part: str, as_json: bool) -> None:
    """Check one part, for health checks.

    The exit code is 0 if it works. gateway: the gateway of this machine answers, and the store
    accepts writes. worker: the worker of this machine, or the one that worker.name names, has sent
    a heartbeat. keeper: a keeper is the leader, on this machine or another one.
    """
    text = PROBES[part](load_local())
    output.print_result({"part": part, "works": True}, text, as_json)


def _gateway(loaded: Loaded) -> str:
    settings = loaded.settings
    host = LOOPBACK if settings.gateway_host in ANY else settings.gateway_host
    connection = http.client.HTTPConnection(host, settings.gateway_port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/ready")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise _failed(
            f"The gateway on port {settings.gateway_port} does not answer: {error}."
        ) from None
    finally:
        connection.close()
    if status != 200:
        raise _failed(f"The gateway answers with status {status}: it cannot write to its store.")
    return "The gateway is ready."


def _worker(loaded: Loaded) -> str:
    name, host = loaded.settings.worker_name, socket.gethostname()
    with connect(loaded) as detent:
        found = detent.call("list_workers")["items"]
    own = [row for row in found if (row["name"] == name if name else row["host"] == host)]
    if not any(row["alive"] for row in own):
        known = f"named {name}" if name else f"on {host}"
        raise _failed(f"No worker {known} has sent a heartbeat within its lease.")
    return "The worker is alive."


def _keeper(loaded: Loaded) -> str:
    with connect(loaded) as detent:
        reasons = detent.call("health")["system"]["reasons"]
    found = {reason["figure"]: reason["verdict"] for reason in reasons}
    if found["keeper"] != "ok":
        raise _failed("No keeper is the leader.")
    return "A keeper is the leader."


def _failed(message: str) -> Unavailable:
    return Unavailable(message, retry_after_s=1)


PROBES: Mapping[str, Callable[[Loaded], str]] = {
    "gateway": _gateway,
    "worker": _worker,
    "keeper": _keeper,
}
