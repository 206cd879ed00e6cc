"""The parts of `detent db upgrade`: the layout, the end of a rolling upgrade, and grants."""

import time
from collections.abc import Callable
from importlib import resources
from typing import Any

import click

from detent.cli import output
from detent.cli.processes_using_data import may_be_running
from detent.errors import Invalid, Refused
from detent.operations.process_registry import live_processes
from detent.settings import Settings
from detent.store.schema_status import SchemaStatus, schema_status
from detent.store.schema_upgrade import apply_all, read_processes
from detent.store.store_url import is_postgres


def upgrade_layout(
    settings: Settings, require_stopped: Callable[[], None]
) -> tuple[dict[str, Any], str] | None:
    """Convert a database of an earlier layout: what was done, and as text; None for nothing."""
    schema = schema_status(settings.url)
    if not schema.exists:
        return None
    from detent.cli.progress import progress_bar
    from detent.integrity.upgrade import upgrade_postgres, upgrade_sqlite, verify_upgrade

    is_old = schema.has_old_layout
    with progress_bar() as update:

        def progress(what: str, at: int) -> None:
            update(what, at, at)

        if is_old:
            require_stopped()
            convert = upgrade_postgres if schema.path is None else upgrade_sqlite
            done = convert(settings.url, time.time_ns() // 1_000, progress)
        elif not schema.needed:  # an upgrade may have been interrupted during its verification
            done = verify_upgrade(settings.url, progress)
        else:
            return None
    if done is None:
        return None
    names = [str(each) for each in schema.waiting] if is_old else []
    upgraded = f"Upgraded {schema.where}: {', '.join(names)}." if names else "Verified the upgrade."
    text = (
        f"{upgraded}\n"
        f"Converted {done.events} events. The hash chain is the same as before: "
        f"{done.anchor.chain} at position {done.anchor.position}."
    )
    facts = {"where": schema.where, "applied": names, "events": done.events}
    return {**facts, "anchor": done.anchor._asdict()}, text


def finish_upgrade(schema: SchemaStatus) -> None:
    """Apply all missing migrations; refuse while a program runs that cannot use one of them."""
    last = max((each.number for each in schema.waiting if each.contracts), default=0)
    rows, now = read_processes(schema.url)
    older = [
        f"{each.name} (detent {each.version}, schema {each.schema})"
        for each in live_processes(rows, now)
        if each.schema < last and may_be_running(each.host, each.pid)
    ]
    if older:
        waiting = ", ".join(str(each) for each in schema.waiting if each.contracts)
        raise Refused(
            f"The upgrade of {schema.where} cannot be finished: it is in use by "
            f"{', '.join(older)}, which cannot use {waiting}. Nothing was changed.",
            hint="Replace these processes by the new version and try again. A killed process "
            "counts for a minute.",
        )
    apply_all(schema.url, now)


def print_grants(url: str, role: str, as_json: bool) -> None:
    """Print the rights that the processes of detent need, for the owner of the tables."""
    if not is_postgres(url):
        raise Refused("Only a store on PostgreSQL has roles.", hint="Leave out --role.")
    if not role.strip():
        raise Invalid(
            "--role must be the name of a role, not empty.",
            field="--role",
            hint="Name the PostgreSQL role with which the processes of detent connect.",
        )
    text = resources.files("detent.store.postgres.sql").joinpath("roles.sql").read_text("utf-8")
    quoted = '"' + role.replace('"', '""') + '"'
    grants = text[text.index("GRANT") :].replace(':"role"', quoted)
    if as_json:
        output.print_json({"statements": [grants]})
    else:
        click.echo(grants, nl=False)
