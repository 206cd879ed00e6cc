"""`detent webhooks`: list webhooks and their deliveries; put, delete, test or replay one."""

from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect

HEADINGS = ("NAME", "URL", "EVENTS", "PENDING", "DEAD", "DELIVERED", "STATE", "ERROR")


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def webhooks(ctx: click.Context, as_json: bool) -> None:
    """List webhooks and their deliveries; put, delete, test or replay one."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        items = detent.call("list_webhooks")["items"]
    if as_json:
        output.print_json({"items": items})
    elif items:
        output.print_table(HEADINGS, [_cells(each) for each in items])
    else:
        output.print_text("No webhooks. Create one: detent webhooks put NAME URL")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    options = ",".join(row["events"]) or (f"for {row['only']}" if row["only"] else "all")
    return (
        row["name"],
        row["url"],
        options,
        str(row["pending"]),
        str(row["dead"]),
        str(row["delivered"]),
        "paused" if row["paused"] else "on",
        row["error"] or "",
    )


@webhooks.command()
@click.argument("name")
@click.argument("url")
@click.option(
    "--shape", default="cloudevents", show_default=True, help="The format: cloudevents, or slack."
)
@click.option("--event", "events", multiple=True, help="Only this event; may be repeated.")
@click.option("--project", "projects", multiple=True, help="Only this project; may be repeated.")
@click.option("--intent", "intents", multiple=True, help="Only this intent; may be repeated.")
@click.option("--people", is_flag=True, help="Only events that need a person.")
@click.option("--paused", is_flag=True, help="Send nothing until it is put without --paused.")
@output.json_option
def put(as_json: bool, people: bool, **options: Any) -> None:
    """Create a webhook, or replace all options of one; a new one starts with the next event."""
    given = {
        key: list(value) if isinstance(value, tuple) else value for key, value in options.items()
    }
    with connect() as detent:
        made = detent.call("put_webhook", **given, only="people" if people else None)
    if as_json:
        output.print_json(made)
        return
    output.print_text(f"{made['name']}: {made['url']}")
    if made["key"]:
        output.print_text(
            f"Key: {made['key']}\nIt is not shown again. The receiver verifies signatures with it."
        )


@webhooks.command()
@click.argument("name")
@output.json_option
def delete(name: str, as_json: bool) -> None:
    """Delete a webhook and its pending deliveries."""
    _call("delete_webhook", as_json, "{name} is deleted.", name=name)


@webhooks.command()
@click.argument("name")
@output.json_option
def test(name: str, as_json: bool) -> None:
    """Queue a test delivery; `deliveries` lists it until it is delivered."""
    _call("try_webhook", as_json, "Queued as {id}.", name=name)


@webhooks.command()
@click.argument("name")
@click.option("--overlap-s", type=int, help="Seconds in which old keys sign too; default one day.")
@output.json_option
def rotate(name: str, overlap_s: int | None, as_json: bool) -> None:
    """Create a new key and print it once; the old key signs too for a while."""
    given = {} if overlap_s is None else {"overlap_s": overlap_s}
    text = "Key: {key}\nThe key is not shown again. The old key signs too until {old_until}."
    _call("rotate_webhook_key", as_json, text, name=name, **given)


@webhooks.command()
@click.argument("name")
@click.option("--after", type=int, help="Send all events after this position of the log.")
@click.option("--dead", is_flag=True, help="Send deliveries that were given up.")
@output.json_option
def replay(name: str, after: int | None, dead: bool, as_json: bool) -> None:
    """Send deliveries again, with the same ids."""
    text = "{name} continues from position {position}; {revived} deliveries are retried."
    _call("replay_webhook", as_json, text, name=name, after=after, dead=dead)


@webhooks.command()
@click.argument("name")
@click.option("--limit", default=100, help="Maximum number of deliveries.")
@output.json_option
def deliveries(name: str, limit: int, as_json: bool) -> None:
    """List pending deliveries and those that were given up, oldest first."""
    with connect() as detent:
        items = detent.call("list_deliveries", name=name, limit=limit)["items"]
    if as_json:
        output.print_json({"items": items})
        return
    if not items:
        output.print_text(f"{name} has no pending deliveries, and none were given up.")
        return
    headings = ("ID", "STATE", "POSITION", "ATTEMPTS", "DUE", "ERROR")
    names = ("id", "state", "position", "attempts", "due_at", "error")
    output.print_table(headings, [[_text(row[each]) for each in names] for row in items])


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _call(operation: str, as_json: bool, text: str, **arguments: Any) -> None:
    with connect() as detent:
        answer = detent.call(operation, **arguments)
    if as_json:
        output.print_json(answer)
    else:
        output.print_text(text.format(**answer))
