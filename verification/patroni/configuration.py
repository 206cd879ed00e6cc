"""The configuration of the machines of a Patroni cluster: etcd's flags and Patroni's file.

JSON is YAML, so Patroni reads it. Every client of the network is trusted: it exists for one run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from verification.network import PREFIX, Machine

POSTGRES_PORT, REST_PORT, CLIENT_PORT, PEER_PORT = 5432, 8008, 2379, 2380
SCOPE = "detent"


class Timing(NamedTuple):
    """Patroni's times in seconds: the leader's lease, the loop, and the patience with etcd."""

    ttl: int
    loop_wait: int
    retry_timeout: int


#: Patroni's defaults, and times for tests, which must keep loop_wait + 2 * retry_timeout <= ttl.
DEFAULTS = Timing(30, 10, 10)
SHORT = Timing(6, 1, 2)


def etcd_command(machine: Machine, members: Sequence[Machine], directory: Path) -> list[str]:
    """One member of a new etcd cluster."""
    peers = ",".join(f"{each.name}=http://{each.address}:{PEER_PORT}" for each in members)
    clients, own = (
        f"http://{machine.address}:{CLIENT_PORT}",
        f"http://{machine.address}:{PEER_PORT}",
    )
    return machine.command(
        [
            "etcd",
            *("--name", machine.name, "--data-dir", str(directory / "etcd")),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", own, "--initial-advertise-peer-urls", own),
            *("--initial-cluster", peers, "--initial-cluster-state", "new"),
            # Longer than the defaults: the machines of a test share few cores.
            *("--heartbeat-interval", "200", "--election-timeout", "2000"),
        ]
    )


def cluster_settings(timing: Timing) -> dict[str, Any]:
    """The settings of the whole cluster, as on the page about high availability."""
    return {
        **timing._asdict(),
        "synchronous_mode": True,
        "synchronous_mode_strict": True,
        "postgresql": {
            "use_pg_rewind": True,
            "use_slots": True,
            "parameters": {
                "synchronous_commit": "on",
                "hot_standby_feedback": "on",
                "max_connections": 200,
            },
        },
    }


def write_patroni_file(
    machine: Machine, members: Sequence[Machine], directory: Path, programs: Path, timing: Timing
) -> Path:
    """Patroni's file of one machine; returns its path."""
    address = machine.address
    configuration = {
        "scope": SCOPE,
        "name": machine.name,
        "restapi": {
            "listen": f"{address}:{REST_PORT}",
            "connect_address": f"{address}:{REST_PORT}",
        },
        "etcd3": {"hosts": [f"{each.address}:{CLIENT_PORT}" for each in members]},
        "bootstrap": {
            "dcs": cluster_settings(timing),
            "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums", "no-sync"],
        },
        "postgresql": {
            "listen": f"{address}:{POSTGRES_PORT}",
            "connect_address": f"{address}:{POSTGRES_PORT}",
            "data_dir": str(directory / "data"),
            "bin_dir": str(programs),
            "pgpass": str(directory / "pgpass"),
            "pg_hba": [
                "local all all trust",
                f"host all all {PREFIX}0/24 trust",
                f"host replication all {PREFIX}0/24 trust",
            ],
            "authentication": {
                each: {"username": "postgres"} for each in ("superuser", "replication", "rewind")
            },
            "parameters": {
                "unix_socket_directories": str(directory),
                "shared_buffers": "32MB",
                "timezone": "UTC",
            },
        },
    }
    path = directory / "patroni.json"
    path.write_text(json.dumps(configuration, indent=2), "utf-8")
    return path
