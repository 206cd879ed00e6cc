"""`detent users`: list the people who have signed in, with their roles; remove one."""

import click

from detent.cli import output
from detent.cli.connection import connect

HEADINGS = ("NAME", "ROLES", "SESSIONS", "SIGNED IN", "GROUPS")


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def users(ctx: click.Context, as_json: bool) -> None:
    """List the people who have signed in, with their roles; remove one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_users")
    if as_json:
        output.print_json(found)
        return
    if not found["items"]:
        output.print_text("No person has signed in through a provider.")
        return
    rows = [
        (
            row["name"],
            ", ".join(row["roles"]) or "none",
            str(row["sessions"]),
            row["signed_in_at"],
            ", ".join(row["groups"]),
        )
        for row in found["items"]
    ]
    output.print_table(HEADINGS, rows)


@users.command()
@click.argument("name")
@output.json_option
def remove(name: str, as_json: bool) -> None:
    """Remove a person and end their sessions; with a role they can sign in again."""
    with connect() as detent:
        done = detent.call("remove_user", name=name)
    ended = done["ended_sessions"]
    output.print_result(done, f"{name}: removed, {ended} sessions ended", as_json)
