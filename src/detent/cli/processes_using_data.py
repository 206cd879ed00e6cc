"""Who is using the data now: what must stop before its rows or its file are replaced."""

import socket
from collections.abc import Iterator

import psutil

from detent.cli.connection import live_server
from detent.errors import Refused
from detent.settings import Settings
from detent.store.port import ReadTransaction, Store


def require_quiet(settings: Settings, store: Store | None) -> None:
    """Refuse while a gateway, worker or keeper lives. Without a store only the gateway is seen."""
    users = [f"the gateway at {url}" for url in (live_server(settings.data_dir),) if url]
    if store is not None:
        with store.read() as view:
            users += live_parts(view, settings)
    if users:
        raise Refused(
            f"The data is in use by {', '.join(users)}.",
            hint="Stop it and try again. One that was killed counts until its lease is over.",
        )


def live_parts(view: ReadTransaction, settings: Settings) -> Iterator[str]:
    """Workers and keepers that were heard of lately and whose process may still be there."""
    for name in sorted(living_workers(view, settings)):
        yield f"the worker {name}"
    keeper = view.rows("system_state").get("keeper") or {}
    host, _, pid = str(keeper.get("name", "")).rpartition(":")
    if keeper.get("until", 0) > view.now() and _may_live(host, int(pid) if pid.isdigit() else None):
        yield f"the keeper {keeper['name']}"


def living_workers(view: ReadTransaction, settings: Settings) -> dict[str, list[str]]:
    """By name: the intents of workers that were heard of within a lease and may still be there."""
    lately = view.now() - settings.worker_lease_ms * 1_000
    return {
        name: list(row.get("intents", ()))
        for name, row in view.rows("workers").items()
        if row.get("seen_at", 0) > lately and _may_live(row.get("host"), row.get("pid"))
    }


def _may_live(host: str | None, pid: int | None) -> bool:
    """False only for a process of this machine that is gone."""
    return host != socket.gethostname() or pid is None or psutil.pid_exists(pid)
