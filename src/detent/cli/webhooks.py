"""`detent webhooks`: who is told outside, how that goes, and what to send again."""

from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect

HEADINGS = ("NAME", "URL", "EVENTS", "PENDING", "DEAD", "DELIVERED", "STATE", "ERROR")


@click.group(cls=output.Group, invoke_without_command=True)
@output.json_option
@click.pass_context
def webhooks(ctx: click.Context, as_json: bool) -> None:
    """List webhooks and how sending to them goes; put, delete, test and replay them."""
    if ctx.invoked_subcommand is not None:
        return
    with connect() as detent:
        items = detent.call("list_webhooks")["items"]
    if as_json:
        output.print_json({"items": items})
    elif items:
        output.print_table(HEADINGS, [_cells(each) for each in items])
    else:
        output.print_text("There are no webhooks. Make one with: detent webhooks put NAME URL")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    wanted = ",".join(row["events"]) or (f"for {row['only']}" if row["only"] else "all")
    return (
        row["name"],
        row["url"],
        wanted,
        str(row["pending"]),
        str(row["dead"]),
        str(row["delivered"]),
        "paused" if row["paused"] else "on",
        row["error"] or "",
    )


@webhooks.command()
@click.argument("name")
@click.argument("url")
@click.option("--shape", default="cloudevents", help="cloudevents, or slack for a chat.")
@click.option("--event", "events", multiple=True, help="Only this event; may be repeated.")
@click.option("--project", "projects", multiple=True, help="Only this project; may be repeated.")
@click.option("--intent", "intents", multiple=True, help="Only this intent; may be repeated.")
@click.option("--people", is_flag=True, help="Only what needs a person.")
@click.option("--paused", is_flag=True, help="Send nothing for now.")
@output.json_option
def put(as_json: bool, people: bool, **wanted: Any) -> None:
    """Make a webhook, or say all about one anew; a new one begins with what happens next."""
    given = {
        key: list(value) if isinstance(value, tuple) else value for key, value in wanted.items()
    }
    with connect() as detent:
        made = detent.call("put_webhook", **given, only="people" if people else None)
    if as_json:
        output.print_json(made)
        return
    output.print_text(f"{made['name']}: {made['url']}")
    if made["key"]:
        output.print_text(
            f"Key: {made['key']}\nIt is shown this once. The receiver checks with it."
        )


@webhooks.command()
@click.argument("name")
@output.json_option
def delete(name: str, as_json: bool) -> None:
    """Forget a webhook and everything that waits for it."""
    _do("delete_webhook", as_json, "{name} is deleted.", name=name)


@webhooks.command()
@click.argument("name")
@output.json_option
def test(name: str, as_json: bool) -> None:
    """Queue a delivery that says nothing; `deliveries` shows it until it has arrived."""
    _do("try_webhook", as_json, "Queued as {id}.", name=name)


@webhooks.command()
@click.argument("name")
@click.option("--overlap-s", type=int, help="How long old keys sign along; a day if not said.")
@output.json_option
def rotate(name: str, overlap_s: int | None, as_json: bool) -> None:
    """Make a new key, shown this once; the old one signs along for a while."""
    given = {} if overlap_s is None else {"overlap_s": overlap_s}
    said = "Key: {key}\nIt is shown this once. The old one signs until {old_until}."
    _do("rotate_webhook_key", as_json, said, name=name, **given)


@webhooks.command()
@click.argument("name")
@click.option("--after", type=int, help="Everything after this position of the log.")
@click.option("--dead", is_flag=True, help="What was given up.")
@output.json_option
def replay(name: str, after: int | None, dead: bool, as_json: bool) -> None:
    """Send again, under the ids of the first time."""
    said = "{name} goes on from position {position}; {revived} are tried again."
    _do("replay_webhook", as_json, said, name=name, after=after, dead=dead)


@webhooks.command()
@click.argument("name")
@click.option("--limit", default=100, help="At most so many.")
@output.json_option
def deliveries(name: str, limit: int, as_json: bool) -> None:
    """List what waits to be sent and what was given up, oldest first."""
    with connect() as detent:
        items = detent.call("list_deliveries", name=name, limit=limit)["items"]
    if as_json:
        output.print_json({"items": items})
        return
    if not items:
        output.print_text(f"Nothing waits for {name}, and nothing was given up.")
        return
    headings = ("ID", "STATE", "POSITION", "ATTEMPTS", "DUE", "ERROR")
    names = ("id", "state", "position", "attempts", "due_at", "error")
    output.print_table(headings, [[_text(row[each]) for each in names] for row in items])


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _do(operation: str, as_json: bool, said: str, **arguments: Any) -> None:
    with connect() as detent:
        answer = detent.call(operation, **arguments)
    if as_json:
        output.print_json(answer)
    else:
        output.print_text(said.format(**answer))
