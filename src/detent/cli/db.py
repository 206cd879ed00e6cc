"""`detent db`: the database as a whole: its schema, copies of it, another place, less of it."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from detent.cli import output
from detent.errors import DetentError, Refused
from detent.settings import Settings, load

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
    """Look after the database: schema, backup, restore, move, trim."""


# ---- the schema --------------------------------------------------------------------------------


@db.command()
@output.json_option
def init(as_json: bool) -> None:
    """Make the database, or bring it to the present schema."""
    _bring_up("Made", as_json)


@db.command()
@output.json_option
def upgrade(as_json: bool) -> None:
    """Bring the database to the present schema. Every start does so too."""
    _bring_up("Upgraded", as_json)


def _bring_up(done: str, as_json: bool) -> None:
    before = _schema(load().settings)
    names = [f"{each.number:04}_{each.name}" for each in before.waiting]
    if names:
        _open(load().settings).close()
        said = f"{done} {before.where}: {', '.join(names)}."
    else:
        said = f"{before.where} has the present schema, {len(before.applied)}."
    output.answer({"where": before.where, "applied": names}, said, as_json)


@db.command()
@output.json_option
def status(as_json: bool) -> None:
    """Say where the database is, which schema it has and how much it holds."""
    settings = load().settings
    schema = _schema(settings)
    found: dict[str, Any] = {
        "where": schema.where,
        "exists": schema.exists,
        "schema": len(schema.applied),
        "waiting": [f"{each.number:04}_{each.name}" for each in schema.waiting],
    }
    if schema.exists and not schema.waiting:
        found |= _contents(settings)
    if as_json:
        output.print_json(found)
    else:
        output.table(("WHAT", "VALUE"), [(name, str(value)) for name, value in found.items()])
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
@click.option("--all", "everything", is_flag=True, help="The whole schema, not what is missing.")
@output.json_option
def sql(everything: bool, as_json: bool) -> None:
    """Print the statements that the schema still needs, for whoever applies them by hand."""
    schema = _schema(load().settings)
    wanted = _known(schema) if everything else schema.waiting
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


# ---- copies ------------------------------------------------------------------------------------


@db.command()
@click.argument("file", type=_file)
@click.option("--with-blobs", is_flag=True, help="Copy evidence too, into FILE.blobs beside it.")
@output.json_option
def backup(file: Path, with_blobs: bool, as_json: bool) -> None:
    """Copy the database into FILE while it is in use.

    FILE holds the database as it was at one moment. Evidence comes along with --with-blobs. The
    token, and what runs have left in the data directory, their output too, are not in it.
    """
    from detent.cli.progress import bar
    from detent.store.sqlite.backup import back_up
    from detent.transfer.blob_copy import copy_blobs, count_blobs

    schema = _sqlite_only(load().settings, "pg_dump")
    ours, theirs = _blobs_of(_file_of(schema)), _blobs_beside(file)
    if with_blobs and count_blobs(theirs):
        raise Refused(f"{theirs.directory} is there already.", hint="Give another name.")
    with bar() as tell:
        back_up(_file_of(schema), file.absolute(), tell)
        copied = copy_blobs(ours, theirs, tell) if with_blobs else 0
    left = 0 if with_blobs else count_blobs(ours)
    said = f"Copied {schema.where} into {file}."
    if copied:
        said += f"\nCopied {copied} files of evidence into {theirs.directory}: keep them together."
    if left:
        said += f"\nNot in it: {left} files of evidence. --with-blobs copies them too."
    facts = {"from": schema.where, "file": str(file), "blobs": copied, "blobs_left": left}
    output.answer(facts, said, as_json)


@db.command()
@click.argument("file", type=_file)
@output.json_option
def restore(file: Path, as_json: bool) -> None:
    """Put the backup FILE in the place of the database, and verify it.

    Evidence in FILE.blobs is put back as well. What was written after the backup is gone from the
    log: whoever follows it starts anew. The old database stays beside the new one.
    """
    from detent.cli.progress import bar
    from detent.store.sqlite.backup import restore as put_back
    from detent.store.store_url import is_postgres, sqlite_path
    from detent.transfer.blob_copy import copy_blobs

    settings = load().settings
    if is_postgres(settings.url):
        _sqlite_only(settings, "pg_restore")
    if not file.exists():
        raise Refused(f"There is no file {file}.", hint="Give a file that `detent db backup` made.")
    _require_quiet(settings)
    path = sqlite_path(settings.url)
    with bar() as tell:
        aside = put_back(path, file)
        copied = copy_blobs(_blobs_beside(file), _blobs_of(path), tell)
    tell_so = output.note if as_json else output.say
    if aside is not None:
        tell_so(f"The database that was there is now {aside}.")
    tell_so(f"Restored {file}{f' and {copied} files of evidence' if copied else ''}.")
    _verify(settings, as_json)


def _blobs_of(path: Path) -> "DirectoryBlobs":
    """The evidence that belongs to a database."""
    return _blobs(path.parent / "blobs")


def _blobs_beside(file: Path) -> "DirectoryBlobs":
    """The evidence that belongs to a backup."""
    return _blobs(file.absolute().with_name(f"{file.name}.blobs"))


def _blobs(directory: Path) -> "DirectoryBlobs":
    from detent.store.sqlite.blob_store import DirectoryBlobs

    return DirectoryBlobs(directory, lambda: time.time_ns() // 1_000)


def _require_quiet(settings: Settings) -> None:
    """A database that cannot be opened, which is why one restores, has no workers to ask for."""
    from detent.cli.processes_using_data import require_quiet

    try:
        store = _open(settings) if _schema(settings).exists else None
    except DetentError:
        store = None
    try:
        require_quiet(settings, store)
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
    """Copy everything from SQLite into the empty PostgreSQL database at URL, and compare.

    Evidence and output of runs come along. The old database stays as it is, and so do the token
    and the files that runs have left in the data directory.
    """
    from detent.cli.processes_using_data import require_quiet
    from detent.operations.opener import open_core
    from detent.store.store_url import is_postgres

    loaded = load()
    schema = _sqlite_only(loaded.settings, "pg_dump and pg_restore")
    if not is_postgres(url):
        raise Refused(f"{url} names no PostgreSQL.", hint="Give postgresql://user@host/database.")
    with open_core(loaded) as core:
        require_quiet(loaded.settings, core.store)
        moved = _move(core, url)
    if as_json:
        output.print_json({"counts": moved.counts, "anchor": moved.anchor._asdict()})
        return
    output.table(("TABLE", "ROWS"), [(name, str(count)) for name, count in moved.counts.items()])
    output.say(
        f"Copied {schema.where}. Chain: {moved.anchor.chain} at position {moved.anchor.position}, "
        "the same on both sides.\nSet store.url to the new database and start detent again."
    )


def _move(core: "Core", url: str) -> "Moved":
    from detent.store.sqlite import SqliteStore
    from detent.store.store_url import require_psycopg

    require_psycopg()
    from detent.cli.progress import bar
    from detent.operations.run_output import read_bytes
    from detent.transfer.store_move import move

    store, data_dir = core.store, core.settings.data_dir
    assert isinstance(store, SqliteStore)
    with bar() as tell:
        return move(
            store,
            url,
            core.engine.lifetimes.lease_us,
            lambda *at: read_bytes(store, data_dir, *at),
            tell,
        )


@db.command()
@output.json_option
def trim(as_json: bool) -> None:
    """Remove the sealed beginning of the log, as far as all work in it was deleted."""
    from detent.integrity import hash_chain

    store = _open(load().settings)
    try:
        hash_chain.extend_chain(store)
        count = hash_chain.trim(store)
        with store.read() as view:
            upto = hash_chain.trimmed(view)
    finally:
        store.close()
    said = "Nothing to remove: the log begins with work that was not deleted, or is short."
    if count:
        said = f"Removed {count} events: the log begins after position {upto}."
    output.answer({"removed": count, "trimmed": upto}, said, as_json)


@db.command()
@click.option("--reset", is_flag=True, help="Set the store's time back to its wall clock.")
@output.json_option
def clock(reset: bool, as_json: bool) -> None:
    """Show how far the store's time is ahead of its wall clock, or reset it.

    The wall clock is this machine's for SQLite and the server's for PostgreSQL. The store's time
    is ahead after a write with a fast clock. It may be reset while detent runs. The log is not
    changed: events keep their times and their order. Retries and sleeps that were set meanwhile
    stay due at the times they were given, so they come later by the offset.
    """
    from detent import views
    from detent.operations import store_time

    store = _open(load().settings)
    try:
        back = store_time.reset(store) if reset else 0
        now, ahead = store_time.read(store)
    finally:
        store.close()
    said = f"The store's time is {views.utc(now)}, {ahead / 1_000_000:.3f} s ahead of its clock."
    if reset:
        said = f"Set back by {back / 1_000_000:.3f} s. {said}"
    facts = {"time": views.utc(now), "ahead_us": ahead, "set_back_us": back}
    output.answer(facts, said, as_json)


# ---- reaching it -------------------------------------------------------------------------------


def _schema(settings: Settings) -> "SchemaStatus":
    from detent.store.schema_status import schema_status

    return schema_status(settings.url)


def _open(settings: Settings) -> "Store":
    from detent.store.store_url import open_store

    return open_store(settings.url)


def _sqlite_only(settings: Settings, instead: str) -> "SchemaStatus":
    schema = _schema(settings)
    if schema.path is None:
        raise Refused("This is for SQLite.", hint=f"For PostgreSQL use {instead}.")
    if not schema.exists:
        raise Refused(f"There is no database at {schema.where}.", hint="Look at store.url.")
    return schema


def _file_of(schema: "SchemaStatus") -> Path:
    assert schema.path is not None
    return schema.path
