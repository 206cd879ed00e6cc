"""`detent tokens`: list, create and revoke tokens. A token is shown once, when it is created."""

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.typed_values import seconds_from


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def tokens(ctx: click.Context, as_json: bool) -> None:
    """List tokens; create or revoke one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        found = detent.call("list_tokens")
    if as_json:
        output.print_json(found)
    elif not found["items"]:
        output.print_text("No tokens. Create one: detent tokens create NAME --scope read")
    else:
        rows = [
            (
                row["name"],
                ", ".join(row["scopes"]),
                row["project"] or "all",
                row["expires_at"] or "never",
                row["created_at"],
            )
            for row in found["items"]
        ]
        output.print_table(("NAME", "SCOPES", "PROJECT", "EXPIRES", "CREATED"), rows)


@tokens.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    help="A scope: read, submit, operate, review, run or admin; may be repeated.",
)
@click.option("--project", help="Limit the token to this project.")
@click.option("--expires", metavar="TIME", help="How long it is valid: 90s, 15m, 2h, 30d.")
@output.json_option
def create(
    name: str, scopes: tuple[str, ...], project: str | None, expires: str | None, as_json: bool
) -> None:
    """Create a token and print it. It is not shown again."""
    lifetime_s = None if expires is None else seconds_from(expires, "--expires")
    with connect() as detent:
        made = detent.call(
            "create_token",
            name=name,
            scopes=list(scopes),
            project=project,
            expires_in_s=lifetime_s,
        )
    output.print_result(made, made["token"], as_json)


@tokens.command()
@click.argument("name")
@output.json_option
def revoke(name: str, as_json: bool) -> None:
    """Revoke a token and end its browser sessions immediately."""
    with connect() as detent:
        done = detent.call("revoke_token", name=name)
    output.print_result(done, f"{name}: revoked", as_json)
