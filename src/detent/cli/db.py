"""`detent db`: the schema of the database, backup, restore, move, trim, and its clock."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detent.cli import output
from detent.cli.target import load_local
from detent.errors import DetentError, Refused
from detent.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from detent.operations.context import Core
    from detent.store.migration_files import Migration
    from detent.store.port import Store
    from detent.store.schema_status import SchemaStatus
    from detent.store.sqlite.blob_store import DirectoryBlobs
    from detent.transfer.store_move import Moved

_file = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=output.Group)
def db() -> None:
    """Manage the database: schema, backup, restore, move, trim, clock."""


# ---- the schema --------------------------------------------------------------------------------


@db.command()
@output.json_option
def init(as_json: bool) -> None:
    """Create the database, or upgrade it to the current schema."""
    settings = load_local().settings
    before = _schema(settings)
    if before.needed:
        _open(settings).close()
    _print_schema("Created", before, as_json)


@db.command()
@click.option(
    "--finish",
    is_flag=True,
    help="Also apply changes that older versions cannot use; refused while one runs.",
)
@output.json_option
def upgrade(finish: bool, as_json: bool) -> None:
    """Upgrade the database to the current schema and storage layout.

    Processes of the previous version may run: they can use the new schema until the upgrade is
    finished with --finish. A database of an earlier storage layout is converted: stop detent and
    make a backup first. It is verified before and after. An upgrade that was interrupted continues.
    """
    from detent.cli.db_upgrade import finish_upgrade, upgrade_layout

    settings = load_local().settings
    layout = upgrade_layout(settings, lambda: _require_stopped(settings))
    if layout is not None:
        output.print_result(*layout, as_json)
        return
    before = _schema(settings)
    if before.exists and finish:
        finish_upgrade(before)
    elif before.needed:
        _open(settings).close()
    _print_schema("Upgraded", before, as_json)


def _print_schema(done: str, before: "SchemaStatus", as_json: bool) -> None:
    """Print the migrations that were applied, and those that end the upgrade later."""
    waiting = _schema(load_local().settings).waiting
    names = [str(each) for each in before.waiting if each not in waiting]
    message = f"{before.where} has the current schema, {len(before.applied)}."
    if names:
        message = f"{done} {before.where}: {', '.join(names)}."
    if waiting:
        message += (
            f"\nNot applied yet: {', '.join(map(str, waiting))}. When no process of an older "
            "version runs: detent db upgrade --finish"
        )
    output.print_result({"where": before.where, "applied": names}, message, as_json)


@db.command()
@output.json_option
def status(as_json: bool) -> None:
    """Show the location of the database, its schema and how much it contains.

    The exit code is 1 if migrations are missing.
    """
    settings = load_local().settings
    schema = _schema(settings)
    found: dict[str, Any] = {
        "where": schema.where,
        "exists": schema.exists,
        "schema": len(schema.applied),
        "waiting": [str(each) for each in schema.waiting],
    }
    if schema.exists and not schema.needed:
        found |= _contents(settings)
    if as_json:
        output.print_json(found)
    else:
        output.print_table(
            ("FIELD", "VALUE"), [(name, str(value)) for name, value in found.items()]
        )
    sys.exit(1 if schema.waiting else 0)


def _contents(settings: Settings) -> dict[str, Any]:
    from detent.integrity import hash_chain
    from detent.store.types import Query

    store = _open(settings)
    try:
        with store.read() as view:
            last = view.last_chain_block()
            return {
                "position": view.head(),
                "sealed": last.to_position if last else 0,
                "trimmed": hash_chain.trimmed(view),
                "tasks": sum(view.count_by(Query("tasks"), "state").values()),
                "jobs": sum(view.count_by(Query("jobs"), "state").values()),
            }
    finally:
        store.close()


@db.command()
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Print the whole schema instead of the missing migrations.",
)
@click.option(
    "--role",
    metavar="ROLE",
    help="Print the grants for a PostgreSQL role that does not own the tables.",
)
@output.json_option
def sql(everything: bool, role: str | None, as_json: bool) -> None:
    """Print the SQL of the missing migrations, to apply it manually.

    Migrations that older versions cannot use are printed when no other is missing. With --role,
    print the rights that gateways, workers and keepers need: the owner of the tables executes them.
    """
    from detent.cli.db_upgrade import print_grants

    settings = load_local().settings
    if role is not None:
        print_grants(settings.url, role, as_json)
        return
    schema = _schema(settings)
    wanted = _known(schema) if everything else schema.needed or schema.waiting
    statements = [
        f"BEGIN;\n{text.rstrip()}\n\n"
        "INSERT INTO schema_migrations (number, name, digest, at)\n"
        f"VALUES ({number}, '{name}', '{digest}', {_now(schema)});\nCOMMIT;\n"
        for number, name, text, digest in wanted
    ]
    if schema.path is not None and wanted:
        from detent.store.sqlite.checks import APPLICATION_ID

        statements.append(f"PRAGMA application_id = {APPLICATION_ID};")
    if as_json:
        output.print_json({"statements": statements})
    else:
        for statement in statements:
            click.echo(statement)


def _known(schema: "SchemaStatus") -> "Sequence[Migration]":
    if schema.path is not None:
        from detent.store.sqlite.schema import MIGRATIONS

        return MIGRATIONS
    from detent.store.postgres.schema import MIGRATIONS as OF_POSTGRES

    return OF_POSTGRES


def _now(schema: "SchemaStatus") -> str:
    if schema.path is not None:
        return "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


# ---- backup and restore ------------------------------------------------------------------------


@db.command()
@click.argument("file", type=_file)
@click.option("--with-blobs", is_flag=True, help="Copy evidence too, to FILE.blobs.")
@output.json_option
def backup(file: Path, with_blobs: bool, as_json: bool) -> None:
    """Copy the database to FILE while it is in use.

    FILE contains the database as it was at one moment. --with-blobs copies evidence too. The backup
    does not contain the token, or the output and other files of runs in the data directory.
    """
    from detent.cli.progress import progress_bar
    from detent.store.sqlite.backup import back_up
    from detent.transfer.blob_copy import copy_blobs, count_blobs

    schema = _sqlite_only(load_local().settings, "pg_dump")
    ours, theirs = _blobs_of(_file_of(schema)), _blobs_beside(file)
    if with_blobs and count_blobs(theirs):
        raise Refused(
            f"{theirs.directory} exists already.", hint="Give another file name for the backup."
        )
    with progress_bar() as update:
        back_up(_file_of(schema), file.absolute(), update)
        copied = copy_blobs(ours, theirs, update) if with_blobs else 0
    left = 0 if with_blobs else count_blobs(ours)
    message = f"Copied {schema.where} to {file}."
    if copied:
        message += f"\nCopied {copied} evidence files to {theirs.directory}: keep both together."
    if left:
        message += f"\nNot copied: {left} evidence files. To copy them, use --with-blobs."
    facts = {"from": schema.where, "file": str(file), "blobs": copied, "blobs_left": left}
    output.print_result(facts, message, as_json)


@db.command()
@click.argument("file", type=_file)
@output.json_option
def restore(file: Path, as_json: bool) -> None:
    """Replace the database with the backup FILE, and verify it.

    Evidence in FILE.blobs is restored too. Events after the backup are no longer in the log, so
    clients that follow the log must start again. The old database is kept beside the new one.
    """
    from detent.cli.progress import progress_bar
    from detent.store.sqlite.backup import restore as restore_file
    from detent.store.store_url import is_postgres, sqlite_path
    from detent.transfer.blob_copy import copy_blobs

    settings = load_local().settings
    if is_postgres(settings.url):
        _sqlite_only(settings, "pg_restore")
    if not file.exists():
        raise Refused(
            f"The file {file} does not exist.", hint="Give a file that `detent db backup` wrote."
        )
    _require_stopped(settings)
    path = sqlite_path(settings.url)
    with progress_bar() as update:
        aside = restore_file(path, file)
        copied = copy_blobs(_blobs_beside(file), _blobs_of(path), update)
    print_line = output.print_note if as_json else output.print_text
    if aside is not None:
        print_line(f"The previous database is now {aside}.")
    print_line(f"Restored {file}{f' and {copied} evidence files' if copied else ''}.")
    _verify(settings, as_json)


def _blobs_of(path: Path) -> "DirectoryBlobs":
    """The evidence of a database."""
    return _blobs(path.parent / "blobs")


def _blobs_beside(file: Path) -> "DirectoryBlobs":
    """The evidence of a backup."""
    return _blobs(file.absolute().with_name(f"{file.name}.blobs"))


def _blobs(directory: Path) -> "DirectoryBlobs":
    from detent.store.sqlite.blob_store import DirectoryBlobs

    return DirectoryBlobs(directory, lambda: time.time_ns() // 1_000)


def _require_stopped(settings: Settings) -> None:
    """Require that no process uses the data.

    If the database cannot be opened, only the gateway is checked.
    """
    from detent.cli.processes_using_data import require_stopped

    try:
        store = _open(settings) if _schema(settings).exists else None
    except DetentError:
        store = None
    try:
        require_stopped(settings, store)
    finally:
        if store is not None:
            store.close()


def _verify(settings: Settings, as_json: bool) -> None:
    from detent.cli.verify import report
    from detent.integrity.verify import verify

    store = _open(settings)
    try:
        verdict = verify(store)
    finally:
        store.close()
    report(verdict, as_json)
    sys.exit(0 if verdict.clean else 1)


@db.command()
@click.argument("url")
@output.json_option
def move(url: str, as_json: bool) -> None:
    """Copy the SQLite database to the empty PostgreSQL database at URL, and compare them.

    The evidence and output of runs are copied too. The old database is not changed. The token and
    other files of runs stay in the data directory.
    """
    from detent.cli.processes_using_data import require_stopped
    from detent.operations.opener import open_core
    from detent.store.store_url import is_postgres

    loaded = load_local()
    schema = _sqlite_only(loaded.settings, "pg_dump and pg_restore")
    schema.require_own("db move")
    if not is_postgres(url):
        raise Refused(f"{url} is no PostgreSQL URL.", hint="Give postgresql://user@host/database.")
    with open_core(loaded) as core:
        require_stopped(loaded.settings, core.store)
        moved = _move(core, url)
    if as_json:
        output.print_json({"counts": moved.counts, "anchor": moved.anchor._asdict()})
        return
    output.print_table(
        ("TABLE", "ROWS"), [(name, str(count)) for name, count in moved.counts.items()]
    )
    output.print_text(
        f"Copied {schema.where}. The hash chain is the same in both databases: "
        f"{moved.anchor.chain} at position {moved.anchor.position}.\n"
        "Set store.url to the new database and start detent again."
    )


def _move(core: "Core", url: str) -> "Moved":
    from detent.store.sqlite import SqliteStore
    from detent.store.store_url import require_psycopg

    require_psycopg()
    from detent.cli.progress import progress_bar
    from detent.operations.run_output import read_bytes
    from detent.transfer.store_move import move

    store, data_dir = core.store, core.settings.data_dir
    assert isinstance(store, SqliteStore)
    with progress_bar() as update:
        return move(
            store,
            url,
            core.engine.lifetimes.lease_us,
            lambda *at: read_bytes(store, data_dir, *at),
            update,
        )


@db.command()
@output.json_option
def trim(as_json: bool) -> None:
    """Remove events from the beginning of the log, up to the first work that is not deleted.

    Only events in the hash chain are removed.
    """
    from detent.integrity import hash_chain

    store = _open(load_local().settings)
    try:
        hash_chain.extend_chain(store)
        count = hash_chain.trim(store)
        with store.read() as view:
            upto = hash_chain.trimmed(view)
    finally:
        store.close()
    message = "Nothing to remove: the log is short, or begins with work that was not deleted."
    if count:
        message = f"Removed {count} events. The log now begins after position {upto}."
    output.print_result({"removed": count, "trimmed": upto}, message, as_json)


@db.command()
@click.option("--reset", is_flag=True, help="Set the store's time back to its wall clock.")
@output.json_option
def clock(reset: bool, as_json: bool) -> None:
    """Show how far the store's time is ahead of its wall clock, or reset it.

    The wall clock is that of this machine for SQLite and that of the server for PostgreSQL. The
    store's time is ahead after a process with a fast clock has written. It can be reset while
    detent runs. The log is not changed: events keep their times and their order. Retries and
    sleeps that were set while the time was ahead keep their due times, so they are late by the
    offset.
    """
    from detent import views
    from detent.operations import store_time

    store = _open(load_local().settings)
    try:
        back = store_time.reset(store) if reset else 0
        now, ahead = store_time.read(store)
    finally:
        store.close()
    message = f"The store's time is {views.utc(now)}, {ahead / 1_000_000:.3f} s ahead of its clock."
    if reset:
        message = f"Set back by {back / 1_000_000:.3f} s. {message}"
    facts = {"time": views.utc(now), "ahead_us": ahead, "set_back_us": back}
    output.print_result(facts, message, as_json)


# ---- helpers -----------------------------------------------------------------------------------


def _schema(settings: Settings) -> "SchemaStatus":
    from detent.store.schema_status import schema_status

    return schema_status(settings.url)


def _open(settings: Settings) -> "Store":
    from detent.store.configured_store import open_configured

    return open_configured(settings)


def _sqlite_only(settings: Settings, instead: str) -> "SchemaStatus":
    schema = _schema(settings)
    if schema.path is None:
        raise Refused(
            f"This command works with SQLite only, and store.url names {schema.where}.",
            hint=f"For PostgreSQL, use {instead}. For SQLite, unset store.url (DETENT_STORE_URL).",
        )
    if not schema.exists:
        raise Refused(
            f"There is no database at {schema.where}.",
            hint="Check store.url and store.data_dir: detent config show",
        )
    return schema


def _file_of(schema: "SchemaStatus") -> Path:
    assert schema.path is not None
    return schema.path
