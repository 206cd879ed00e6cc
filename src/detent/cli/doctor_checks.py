"""What the doctor looks at besides the configuration, each thing by a function of its own.

It says what was found and what to do. Looks only: no file is made, no database is brought up.
"""

import json
import os
import platform
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import apsw

from detent.cli.connection import live_server
from detent.cli.processes_using_data import living_workers
from detent.errors import DetentError
from detent.kernel.lane import needs_of, suits
from detent.settings import SERVER_FILE, TOKEN_FILE, Settings
from detent.store.marker import require_store
from detent.store.port import ReadTransaction
from detent.store.schema_status import SchemaStatus, schema_status
from detent.store.sqlite import checks
from detent.store.store_url import open_store
from detent.store.types import Query

#: Below this much free space a log that grows is soon a disk that is full.
FREE_BYTES = 500_000_000
#: A clock that differs by more is set wrongly.
CLOCK_US = 2_000_000
DAY_US = 86_400_000_000
#: Nothing of detent is older than this: 2025-01-01.
OLDEST_US = 1_735_689_600_000_000
#: How long a gateway may take to say whether it is ready.
READY_WITHIN_S = 10.0
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Finding(NamedTuple):
    """One thing that was looked at. `remedy` says what to do if it is not well."""

    name: str
    well: bool
    what: str
    remedy: str = ""


def examine(settings: Settings, clock: Callable[[], int] | None = None) -> list[Finding]:
    """Everything, also when the database cannot be opened."""
    now = clock or _host_clock
    found = [
        *versions(),
        *permissions(settings),
        *disk(settings),
        *server(settings),
        *host_clock(now()),
    ]
    try:
        require_store(settings.data_dir, settings.url)
        schema = schema_status(settings.url)
        found += database(schema)
        if schema.exists and not schema.waiting:
            found += inside(settings, now())
    except DetentError as error:
        found.append(Finding("database", False, error.message, error.hint))
    return found


# ---- the machine -------------------------------------------------------------------------------


def versions() -> Iterator[Finding]:
    named = f"detent {version('detent')}, Python {platform.python_version()}"
    yield Finding("versions", True, f"{named}, SQLite {apsw.sqlite_lib_version()}")
    try:
        checks.check_version(apsw.sqlite_lib_version())
    except DetentError as error:
        yield Finding("versions", False, error.message, error.hint)


def permissions(settings: Settings) -> Iterator[Finding]:
    """The data, the token and the database are for their owner alone."""
    directory = settings.data_dir
    if not directory.exists():
        yield Finding("permissions", True, f"{directory} is not there yet")
        return
    files = [directory / TOKEN_FILE, *sorted(directory.glob("detent.db*"))]
    for path in (directory, *(each for each in files if each.is_file())):
        found = path.stat()
        if found.st_mode & FOR_OTHERS:
            mode = "700" if path.is_dir() else "600"
            what = f"{path} has the mode {stat.S_IMODE(found.st_mode):o}: others may reach it"
            yield Finding("permissions", False, what, f"chmod {mode} {path}")
        elif found.st_uid != os.geteuid() or not os.access(path, os.R_OK | os.W_OK):
            what = f"{path} belongs to user {found.st_uid}, and this is {os.geteuid()}"
            yield Finding("permissions", False, what, "Run detent as that user, or chown it.")
        else:
            yield Finding("permissions", True, f"{path} is for its owner alone")


def disk(settings: Settings) -> Iterator[Finding]:
    free = shutil.disk_usage(_existing(settings.data_dir)).free
    what = f"{free // 1_000_000} MB free for {settings.data_dir}"
    remedy = f"Free space: below {FREE_BYTES // 1_000_000} MB writes will soon fail."
    yield Finding("disk", free >= FREE_BYTES, what, remedy)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def server(settings: Settings) -> Iterator[Finding]:
    """The gateway that serves this directory, and whether its port is free if there is none."""
    url = live_server(settings.data_dir)
    if url is not None:
        fault = _not_ready(url)
        what = f"serves at {url}" if fault is None else f"{url} takes no writes: {fault}"
        yield Finding("gateway", fault is None, what, "Do what it says; `/ready` tells it too.")
        return
    file = settings.data_dir / SERVER_FILE
    if file.exists():
        what = f"{file} names {_named(file)}, which is gone"
        yield Finding("gateway", False, what, f"rm {file}, or start it again: detent up")
    address = (settings.gateway_host, settings.gateway_port)
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(address)
            yield Finding("port", True, f"{address[0]}:{address[1]} is free")
        except OSError as error:
            what = f"the gateway cannot listen on {address[0]}:{address[1]}: {error.strerror}"
            yield Finding("port", False, what, "Stop what uses the port, or set gateway.port.")


def _not_ready(url: str) -> str | None:
    """Why the gateway is not ready, by its own word; None if it is."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=READY_WITHIN_S)
    try:
        connection.request("GET", "/ready")
        answer = connection.getresponse()
        found = json.loads(answer.read())
        return None if answer.status == HTTPStatus.OK else str(found["detail"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        return f"it does not answer ({error})"
    finally:
        connection.close()


def _named(file: Path) -> str:
    try:
        return f"process {json.loads(file.read_text('utf-8'))['pid']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "no process"


def host_clock(now: int) -> Iterator[Finding]:
    what = f"it is {datetime.fromtimestamp(now / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield Finding("clock", now > OLDEST_US, what, "Set the machine's clock; use NTP.")


def _host_clock() -> int:
    return time.time_ns() // 1_000


# ---- the database ------------------------------------------------------------------------------


def database(schema: SchemaStatus) -> Iterator[Finding]:
    """Schema and durability. A server's own settings are checked whenever it is opened."""
    if not schema.exists:
        yield Finding("schema", True, f"there is no database at {schema.where} yet")
        return
    waiting = ", ".join(f"{each.number:04}_{each.name}" for each in schema.waiting)
    what = f"{schema.where} has schema {len(schema.applied)}"
    missing = f"{what} and waits for {waiting}" if waiting else what
    yield Finding("schema", not waiting, missing, "detent db upgrade")
    if schema.path is not None:
        try:
            checks.check_file_system(schema.path)
            what = "a local file, write-ahead log, synchronous = FULL"
            yield Finding("durability", True, what)
        except DetentError as error:
            yield Finding("durability", False, error.message, error.hint)


def inside(settings: Settings, now: int) -> list[Finding]:
    """What the database says about clocks, workers and work that nobody can do."""
    store = open_store(settings.url)  # refuses a server that may lose what it acknowledged
    try:
        with store.read() as view:
            return [
                *store_clock(view, now),
                *workers(view, settings),
                *keeper(view, settings),
                *work(view, settings),
            ]
    finally:
        store.close()


def store_clock(view: ReadTransaction, now: int) -> Iterator[Finding]:
    """After a write with a fast clock, the store's time goes on ahead of the wall clock."""
    ahead, off = view.ahead(), view.now() - view.ahead() - now
    if ahead > CLOCK_US:
        what = (
            f"the store's time is {ahead // 1_000_000} s ahead: a process wrote with a fast clock"
        )
        remedy = "Set that machine's clock, use NTP, then: detent db clock --reset"
        yield Finding("clock", False, what, remedy)
        return
    what = f"the clocks of the store and of this machine differ by {abs(off) // 1_000} ms"
    remedy = "Set the clocks of this machine and of the database server; use NTP."
    yield Finding("clock", abs(off) <= CLOCK_US, what, remedy)


def workers(view: ReadTransaction, settings: Settings) -> Iterator[Finding]:
    names = sorted(living_workers(view, settings))
    listed = ", ".join(names) or "none"
    day_ago = view.now() - DAY_US
    known = {name for name, row in view.rows("workers").items() if row.get("seen_at", 0) > day_ago}
    lost = sorted(known - set(names))
    yield Finding("workers", True, f"seen lately: {listed}")
    if lost:
        what = f"gone without a word: {', '.join(lost)}"
        remedy = "Look at their logs; start them again: detent up, or detent worker."
        yield Finding("workers", False, what, remedy)


def keeper(view: ReadTransaction, settings: Settings) -> Iterator[Finding]:
    """Workers without a keeper go on, and nobody sees to what is due."""
    row = view.rows("system_state").get("keeper") or {}
    if row.get("until", 0) > view.now():
        yield Finding("keeper", True, f"it is {row['name']}")
    elif living_workers(view, settings):
        what = (
            "workers are there and no keeper: schedules, lost workers' jobs and chain blocks wait"
        )
        yield Finding("keeper", False, what, "Start one: detent keeper, or detent up.")


def work(view: ReadTransaction, settings: Settings) -> Iterator[Finding]:
    """Work that waits and that no living worker can do."""
    waiting = view.count_by(Query("queue", {"worker": None}), "lane")
    done = {name for intents in living_workers(view, settings).values() for name in intents}
    left = {lane: count for lane, count in sorted(waiting.items()) if not suits(lane, done)}
    for lane, count in left.items():
        needed = " or ".join(sorted(needs_of(lane)))
        what = f"{count} waiting for {needed}, which no living worker carries out"
        first = min(needs_of(lane))
        remedy = f"Start a worker that does: [intents.{first}] in detent.toml, or --app."
        yield Finding("work", False, what, remedy)
    if not left:
        yield Finding("work", True, f"{sum(waiting.values())} waiting, nothing without a worker")
