"""`detent sessions`: list the browser sessions of the dashboard, and end one."""

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.short_ids import only_match


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def sessions(ctx: click.Context, as_json: bool) -> None:
    """List the browser sessions of the dashboard; end one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_sessions")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text("No browser is signed in. To sign in: detent dashboard")
    else:
        names = ("id", "token", "project", "expires_at", "created_at")
        rows = [tuple(row[name] or "all" for name in names) for row in found["items"]]
        output.print_table(("ID", "TOKEN", "PROJECT", "EXPIRES", "CREATED"), rows)


@sessions.command()
@click.argument("session_id", metavar="ID")
@output.json_option
def end(session_id: str, as_json: bool) -> None:
    """End a session; the browser must sign in again."""
    with connect() as detent:
        known = [each["id"] for each in detent.call("list_sessions")["items"]]
        whole = only_match("session", session_id, known) or session_id
        done = detent.call("end_session", session_id=whole)
    output.print_result(done, f"{whole}: ended", as_json)
