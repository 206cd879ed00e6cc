"""`detent lifecycle`: list, show, draw, export, check and simulate the lifecycles."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import click

from detent.cli.connection import connect
from detent.cli.lifecycle_check import check
from detent.cli.lifecycle_documents import install, migrate, remove
from detent.cli.lifecycle_export import export
from detent.cli.lifecycle_lookup import find_lifecycle
from detent.cli.output import (
    Cell,
    Group,
    Styled,
    json_option,
    print_json,
    print_table,
    print_text,
    styled_state,
)
from detent.diagrams.drawing import Format, diagram
from detent.errors import Refused
from detent.kernel import lifecycle_json
from detent.kernel.lifecycle import Lifecycle, normalise
from detent.kernel.state_mapping import mapped
from detent.task_lifecycles import SHIPPED

REFUSED = "refused"
IGNORED = "ignored"


@click.group(cls=Group)
def lifecycle() -> None:
    """Show, draw, check and simulate lifecycles; install, migrate and remove your own."""


for _command in (check, export, install, remove, migrate):
    lifecycle.add_command(_command)


@lifecycle.command("list")
@json_option
def list_them(as_json: bool) -> None:
    """List the lifecycles, and how many tasks have each."""
    with connect() as detent:
        found = detent.call("list_lifecycles", counts=True)
    names = ("name", "states", "rows", "tasks", "title")
    headings = tuple(name.upper() for name in names)
    rows = [
        (
            *(each["id"], len(each["states"]), len(each["rows"])),
            *(found["tasks"].get(each["id"], 0) if each["kind"] == "task" else None, each["title"]),
        )
        for each in found["lifecycles"]
    ]
    if as_json:
        print_json({"items": [dict(zip(names, each, strict=True)) for each in rows]})
        return
    print_table(headings, [tuple(map(_plain, each)) for each in rows])


@lifecycle.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show the states and transitions of one lifecycle.

    NAME is a lifecycle of detent, or the newest version of one that is installed; NAME@2 is its
    second version.
    """
    found = find_lifecycle(name)
    if as_json:
        print_json(lifecycle_json.export(found))
        return
    print_text(f"{found.title}\n")
    print_table(
        ("STATE", "MEANING", "MARK"),
        [(styled_state(state), state.meaning, _marks(found, state.name)) for state in found.states],
        wrap=True,
    )
    print_text("")
    print_table(("FROM", "EVENT", "TO", "WHO", "WHY", "MARK"), _row_cells(found), wrap=True)


@lifecycle.command("mapping")
@json_option
def map_states(as_json: bool) -> None:
    """Show how states map to the other task lifecycle and to MCP and A2A task states."""
    if as_json:
        print_json({"items": mapped(SHIPPED.values())})
        return
    names = ("lifecycle", "state", "reason", "failed", "other", "mcp", "a2a")
    rows = [tuple(_plain(row[name]) for name in names) for row in mapped(SHIPPED.values())]
    print_table(("LIFECYCLE", "STATE", "REASON", "FAILED", "OTHER", "MCP", "A2A"), rows)


def _plain(value: object) -> str:
    return "" if value is None or value is False else "yes" if value is True else str(value)


@lifecycle.command("diagram")
@click.argument("name")
@click.option(
    "--format",
    "kind",
    type=click.Choice([kind.value for kind in Format]),
    default=Format.MERMAID.value,
    show_default=True,
    help="The format of the diagram.",
)
@json_option
def draw(name: str, kind: str, as_json: bool) -> None:
    """Print a diagram of one lifecycle."""
    found = find_lifecycle(name)
    text = diagram(found, Format(kind))
    if as_json:
        print_json({"name": found.name, "format": kind, "text": text})
    else:
        click.echo(text, nl=False)


@lifecycle.command()
@click.argument("name")
@click.argument("events", nargs=-1, required=True, metavar="EVENT...")
@json_option
@click.pass_context
def simulate(ctx: click.Context, name: str, events: tuple[str, ...], as_json: bool) -> None:
    """Apply events in order and show the state after each, by the strict and the lenient rules.

    By the strict rules, an event without a transition is refused and does not change the state. By
    the lenient rules, an event always sets its target state. Unknown events are ignored by both.
    With --json, strict_state and lenient_state are the states after each event. The exit code is 1
    if an event was refused.
    """
    found = find_lifecycle(name)
    steps = _simulate(found, events)
    if as_json:
        keys = [name for name in Step._fields if name != "legal"]
        print_json({"steps": [{name: getattr(step, name) for name in keys} for step in steps]})
    else:
        print_table(("EVENT", "STRICT", "LENIENT", "LEGAL INSTEAD"), _step_cells(found, steps))
    ctx.exit(1 if any(step.strict == REFUSED for step in steps) else 0)


class Step(NamedTuple):
    """One simulated event: its effect by each set of rules, the states after it (None: not created
    yet), and the events that would have been legal."""

    event: str
    strict: str
    lenient: str
    strict_state: str | None
    lenient_state: str | None
    legal: tuple[str, ...] = ()


def _simulate(found: Lifecycle, events: Iterable[str]) -> list[Step]:
    steps = []
    state: str | None = None
    lenient: str | None = None
    for event in map(normalise, events):
        if event not in found.targets:
            steps.append(Step(event, IGNORED, IGNORED, state, lenient))
            continue
        lenient = target = found.targets[event]
        try:
            state = found.next(state, event)
            steps.append(Step(event, state, target, state, lenient))
        except Refused as refusal:
            steps.append(Step(event, REFUSED, target, state, lenient, refusal.legal))
    return steps


def _step_cells(found: Lifecycle, steps: Iterable[Step]) -> list[tuple[Cell, ...]]:
    signs: dict[str, Cell] = {state.name: styled_state(state) for state in found.states}
    signs |= {REFUSED: Styled(REFUSED, "bold red"), IGNORED: Styled(IGNORED, "dim")}
    return [
        (step.event, signs[step.strict], signs[step.lenient], ", ".join(step.legal))
        for step in steps
    ]


def _marks(found: Lifecycle, state: str) -> str:
    return _listed(("initial", state == found.initial), ("terminal", state in found.terminal))


def _listed(*marks: tuple[str, bool]) -> str:
    return ", ".join(word for word, holds in marks if holds)


def _row_cells(found: Lifecycle) -> list[Sequence[Cell]]:
    return [
        (
            row.source or "–",
            row.event,
            styled_state(found.state(row.target)),
            row.who,
            row.why,
            _listed(("ext", row.extension), ("reopens", row.reopens)),
        )
        for row in found.rows
    ]
