"""The processes that use the data; they must stop before the database is replaced."""

import socket
from collections.abc import Iterator

from detent.cli.connection import live_server
from detent.errors import Refused
from detent.settings import Settings
from detent.store.port import ReadTransaction, Store


def require_stopped(settings: Settings, store: Store | None) -> None:
    """Refuse while a gateway, worker or keeper runs. Without a store, only check the gateway."""
    users = [f"the gateway at {url}" for url in (live_server(settings.data_dir),) if url]
    if store is not None:
        with store.read() as view:
            users += live_processes(view, settings)
    if users:
        raise Refused(
            f"The data is in use by {', '.join(users)}.",
            hint="Stop it and try again. A killed process counts until its lease has expired.",
        )


def live_processes(view: ReadTransaction, settings: Settings) -> Iterator[str]:
    """Workers and keepers whose lease is valid and whose process may be running."""
    for name in sorted(live_workers(view, settings)):
        yield f"the worker {name}"
    keeper = view.rows("system_state").get("keeper") or {}
    host, _, pid = str(keeper.get("name", "")).rpartition(":")
    if keeper.get("until", 0) > view.now() and may_be_running(
        host, int(pid) if pid.isdigit() else None
    ):
        yield f"the keeper {keeper['name']}"


def live_workers(view: ReadTransaction, settings: Settings) -> dict[str, list[str]]:
    """The intents of running workers, by name: a heartbeat within a lease, and no dead process."""
    since = view.now() - settings.worker_lease_ms * 1_000
    return {
        name: list(row.get("intents", ()))
        for name, row in view.rows("workers").items()
        if row.get("seen_at", 0) > since and may_be_running(row.get("host"), row.get("pid"))
    }


def may_be_running(host: str | None, pid: int | None) -> bool:
    """False only for a process of this machine that does not run."""
    if host != socket.gethostname() or pid is None:
        return True
    import psutil

    return psutil.pid_exists(pid)
