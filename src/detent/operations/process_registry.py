"""The registry of running gateways, workers and keepers: their schema, for upgrades.

Each process stores a row of `system_state` and renews it. A program that uses the database without
one of these components, such as one that calls `App.submit`, is not registered.
"""

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.operations.context import Core
from detent.periodic_thread import PeriodicThread
from detent.store.port import WriteTransaction
from detent.store.schema_status import program_schema

log = logging.getLogger("detent")

PROCESS_PREFIX = "process:"
RENEW_S = 15.0
#: A process that has not renewed its row for this long has ended.
LIVE_US = 60_000_000


class RegisteredProcess(NamedTuple):
    """A process that was alive a short time ago."""

    host: str
    pid: int
    version: str
    schema: int

    @property
    def name(self) -> str:
        return f"{self.host}:{self.pid}"


def live_processes(rows: Mapping[str, Any], now: int) -> Iterator[RegisteredProcess]:
    """The processes that have renewed their rows, from the rows of `system_state`."""
    for name, row in sorted(rows.items()):
        if name.startswith(PROCESS_PREFIX) and row["seen_at"] > now - LIVE_US:
            host, _, pid = name.removeprefix(PROCESS_PREFIX).rpartition(":")
            yield RegisteredProcess(host, int(pid), row["version"], row["schema"])


class ProcessRegistration(PeriodicThread):
    """Stores and renews the row of this process; removes it and those of killed processes."""

    def __init__(self, core: Core) -> None:
        super().__init__("detent-registration", self._renew, RENEW_S)
        self.core = core
        self._failures = FailureLog(
            log,
            "this process could not renew its registration",
            "this process renews its registration again",
        )
        self.row = f"{PROCESS_PREFIX}{socket.gethostname()}:{os.getpid()}"
        self.facts = {"version": version("detent"), "schema": program_schema(core.store.url)}

    def start(self) -> None:
        self.core.engine.transaction(self._save)
        super().start()

    def stop(self) -> None:
        super().stop()
        try:
            self.core.engine.transaction(lambda tx: tx.put_rows("system_state", {self.row: None}))
        except DetentError as error:
            log.warning("this process could not remove its registration: %s", error)

    def _renew(self) -> float:
        try:
            self.core.engine.transaction(self._save)
            self._failures.worked()
        except DetentError as error:
            self._failures.failed(error)
        return RENEW_S

    def _save(self, tx: WriteTransaction) -> None:
        now = tx.now()
        rows: dict[str, Any] = {self.row: {**self.facts, "seen_at": now}}
        for name, row in tx.rows("system_state").items():
            if name.startswith(PROCESS_PREFIX) and row["seen_at"] < now - LIVE_US:
                rows.setdefault(name, None)
        tx.put_rows("system_state", rows)
