"""Checks of `detent doctor` on the machine, the gateway and the database.

Each check yields findings: what was found, and how to fix it. The checks change nothing: they
create no file and no database.
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
from urllib.parse import urlsplit

import apsw

from detent.cli.connection import live_server
from detent.cli.finding import Finding
from detent.cli.processes_using_data import live_workers
from detent.errors import DetentError, Unavailable
from detent.kernel.lane import needs_of, suits
from detent.settings import SERVER_FILE, TOKEN_FILE, Settings
from detent.store.marker import require_store
from detent.store.port import ReadTransaction
from detent.store.s3.bucket import Bucket
from detent.store.schema_status import SchemaStatus, program_schema, schema_status
from detent.store.sqlite import checks
from detent.store.store_url import is_postgres, open_store
from detent.store.table_names import status_row
from detent.store.types import Query

#: With less free space than this, the disk is nearly full.
FREE_BYTES = 500_000_000
#: A larger difference between two clocks is reported.
CLOCK_US = 2_000_000
DAY_US = 86_400_000_000
#: 2025-01-01; a clock that shows an earlier time is wrong.
OLDEST_US = 1_735_689_600_000_000
#: Timeout of the request for readiness.
READY_WITHIN_S = 10.0
FOR_OTHERS = stat.S_IRWXG | stat.S_IRWXO


START_DATABASE = "Start the database server, or correct store.url."


def check_installation(settings: Settings, clock: Callable[[], int] | None = None) -> list[Finding]:
    """All checks; if the database cannot be opened, that is a finding too."""
    now = clock or _host_clock
    found = [
        *versions(),
        *permissions(settings),
        *disk(settings),
        *server(settings),
        *bucket(settings),
        *host_clock(now()),
    ]
    try:
        require_store(settings.data_dir, settings.url)
        schema = schema_status(settings.url)
        found += database(schema)
        if schema.exists and not schema.needed:
            found += inside(settings, now())
            if is_postgres(settings.url):
                from detent.cli.postgres_checks import check_postgres  # imported late: few use it

                found += check_postgres(settings)
    except Unavailable as error:
        found.append(Finding("database", False, error.message, START_DATABASE))
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
    """Check that only the owner can access the data, the token and the database."""
    directory = settings.data_dir
    if not directory.exists():
        yield Finding("permissions", True, f"{directory} does not exist yet")
        return
    files = [directory / TOKEN_FILE, *sorted(directory.glob("detent.db*"))]
    for path in (directory, *(each for each in files if each.is_file())):
        found = path.stat()
        if found.st_mode & FOR_OTHERS:
            mode = "700" if path.is_dir() else "600"
            what = f"{path} has the mode {stat.S_IMODE(found.st_mode):o}: other users can access it"
            yield Finding("permissions", False, what, f"chmod {mode} {path}")
        elif found.st_uid != os.geteuid() or not os.access(path, os.R_OK | os.W_OK):
            what = f"{path} belongs to user {found.st_uid}, but this is user {os.geteuid()}"
            yield Finding(
                "permissions",
                False,
                what,
                f"Run detent as that user, or: chown {os.geteuid()} {path}",
            )
        else:
            yield Finding("permissions", True, f"only the owner can access {path}")


def disk(settings: Settings) -> Iterator[Finding]:
    free = shutil.disk_usage(_existing(settings.data_dir)).free
    what = f"{free // 1_000_000} MB free for {settings.data_dir}"
    remedy = f"Free disk space, or set store.data_dir; {FREE_BYTES // 1_000_000} MB should be free."
    yield Finding("disk", free >= FREE_BYTES, what, remedy)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.absolute().parents) if each.exists())


def server(settings: Settings) -> Iterator[Finding]:
    """Check that the gateway is ready; if none runs, that its port is free."""
    url = live_server(settings.data_dir)
    if url is not None:
        fault = _not_ready(url)
        what = f"ready at {url}" if fault is None else f"{url} is not ready: {fault}"
        yield Finding(
            "gateway", fault is None, what, f"Fix the reported fault; {url}/ready shows it again."
        )
        return
    file = settings.data_dir / SERVER_FILE
    if file.exists():
        what = f"the gateway exited uncleanly: {file} names {_named(file)}, which does not run"
        yield Finding(
            "gateway", False, what, f"Start it again: detent up. Or remove the file: rm {file}"
        )
    address = (settings.gateway_host, settings.gateway_port)
    with socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET) as trying:
        trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(address)
            yield Finding("port", True, f"{address[0]}:{address[1]} is free")
        except OSError as error:
            what = f"the gateway cannot listen on {address[0]}:{address[1]}: {error.strerror}"
            yield Finding(
                "port",
                False,
                what,
                "Stop the program that uses the port, or use another: --port or gateway.port.",
            )


def _not_ready(url: str) -> str | None:
    """The reason why the gateway is not ready, as it reports it; None if it is ready."""
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
    what = f"the time is {datetime.fromtimestamp(now / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield Finding("clock", now > OLDEST_US, what, "Set the clock of the machine; use NTP.")


def _host_clock() -> int:
    return time.time_ns() // 1_000


# ---- the database ------------------------------------------------------------------------------


def database(schema: SchemaStatus) -> Iterator[Finding]:
    """Check schema and durability. The settings of a server are checked when it is opened."""
    if not schema.exists:
        yield Finding("schema", True, f"the database {schema.where} does not exist yet")
        return
    waiting = ", ".join(map(str, schema.waiting))
    what = f"{schema.where} has schema {len(schema.applied)}"
    if schema.newer:
        what += f"; this version has schema {program_schema(schema.url)} and can use it"
    missing = f"{what}; missing migrations: {waiting}" if waiting else what
    remedy = "Upgrade it: detent db upgrade"
    if waiting and not schema.needed:
        remedy = "When no process of an older version runs: detent db upgrade --finish"
    yield Finding("schema", not waiting, missing, remedy)
    if schema.path is not None:
        try:
            checks.check_file_system(schema.path)
            what = "a local file, write-ahead log, synchronous = FULL"
            yield Finding("durability", True, what)
        except DetentError as error:
            yield Finding("durability", False, error.message, error.hint)


def bucket(settings: Settings) -> Iterator[Finding]:
    """Check the bucket by writing, listing and deleting an object."""
    if not settings.blobs_url:
        return
    try:
        Bucket(settings.blobs_url, settings.blobs_endpoint, settings.blobs_region).check()
        yield Finding("bucket", True, f"{settings.blobs_url} can be written and read")
    except DetentError as error:
        yield Finding("bucket", False, error.message, error.hint)


def inside(settings: Settings, now: int) -> list[Finding]:
    """Check clocks, workers, the keeper and queued work, from the rows of the database."""
    store = open_store(settings.url)  # refuses a server that can lose committed data
    try:
        with store.read() as view:
            return [
                *store_clock(view, now),
                *workers(view, settings),
                *keeper(view, settings),
                *work(view, settings),
                *trackers(view),
                *slack(view, settings),
            ]
    finally:
        store.close()


def store_clock(view: ReadTransaction, now: int) -> Iterator[Finding]:
    """Check the clocks; after a write with a fast clock, the store's time is ahead."""
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
    names = sorted(live_workers(view, settings))
    listed = ", ".join(names) or "none"
    day_ago = view.now() - DAY_US
    known = {name for name, row in view.rows("workers").items() if row.get("seen_at", 0) > day_ago}
    lost = sorted(known - set(names))
    yield Finding("workers", True, f"running: {listed}")
    if lost:
        what = f"exited uncleanly: {', '.join(lost)}"
        remedy = "Read their logs, then start them again: detent up, or detent worker."
        yield Finding("workers", False, what, remedy)


def keeper(view: ReadTransaction, settings: Settings) -> Iterator[Finding]:
    """Check that a keeper runs; without one, timers and schedules do not fire."""
    row = view.rows("system_state").get("keeper") or {}
    if row.get("until", 0) > view.now():
        yield Finding("keeper", True, f"running: {row['name']}")
    elif live_workers(view, settings):
        what = "workers run but no keeper: schedules, jobs of lost workers and the hash chain wait"
        yield Finding("keeper", False, what, "Start one: detent keeper, or detent up")


def work(view: ReadTransaction, settings: Settings) -> Iterator[Finding]:
    """Report queued jobs whose intent no running worker has."""
    waiting = view.count_by(Query("queue", {"worker": None}), "lane")
    done = {name for intents in live_workers(view, settings).values() for name in intents}
    left = {lane: count for lane, count in sorted(waiting.items()) if not suits(lane, done)}
    for lane, count in left.items():
        needed = " or ".join(sorted(needs_of(lane)))
        what = f"{count} queued for the intent {needed}, which no running worker has"
        first = min(needs_of(lane))
        remedy = f"Start a worker with it: set [intents.{first}] in detent.toml, or use --app."
        yield Finding("work", False, what, remedy)
    if not left:
        yield Finding("work", True, f"{sum(waiting.values())} queued, none without a worker")


def trackers(view: ReadTransaction) -> Iterator[Finding]:
    """The last error of the keeper with a tracker, if it has not succeeded since."""
    rows = view.rows("system_state")
    for role in ("notion", "github", "gitlab"):
        row = rows.get(status_row(role)) or {}
        if row.get("error"):
            what = f"since {row['since']}: {row['error']}"
            yield Finding(f"keeper of {role}", False, what, row["hint"] or "")


def slack(view: ReadTransaction, settings: Settings) -> Iterator[Finding]:
    """Check the connection to Slack if it is configured."""
    if settings.slack_bot_token:
        from detent.cli.slack_check import slack_faults  # imported late: few use it

        faults = list(slack_faults(view, settings))
        yield from (Finding("slack", False, what, remedy) for what, remedy in faults)
        if not faults:
            named = ", ".join(each.split()[0] for each in settings.slack_channels)
            yield Finding("slack", True, f"the app can use {named}")
