"""Commands about the installation as a whole: `health`, `stats`, `state`."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from detent.cli import output
from detent.cli.connection import connect
from detent.cli.typed_values import value_from

COLOURS = {"ok": "green", "degraded": "yellow", "unhealthy": "red"}

#: What the overall verdict of `detent health` summarises.
OVERALL = "the worst of success rate, queue and blocked"


@click.command()
@output.json_option
def health(as_json: bool) -> None:
    """Report whether the installation is healthy, with the reasons.

    The exit code is 1 if the verdict is unhealthy.
    """
    with connect() as detent:
        found = detent.call("health")
    if as_json:
        output.print_json(found)
    else:
        rows = [("all", "verdict", _mark(found["verdict"]), OVERALL)]
        for name, group in (("system", found["system"]), ("your work", found["work"])):
            rows += [
                (name, each["figure"].replace("_", " "), _mark(each["verdict"]), each["text"])
                for each in group["reasons"]
            ]
        output.print_table(("PART", "CHECK", "VERDICT", "REASON"), rows, wrap=True)
    sys.exit(1 if found["verdict"] == "unhealthy" else 0)


def _mark(verdict: str) -> output.Styled:
    return output.Styled(verdict, COLOURS.get(verdict, ""))


# ---- stats -----------------------------------------------------------------------------------


@click.command()
@click.option("--hours", default=24, show_default=True, help="The period in hours, up to now.")
@click.option("--project", help="Only work of this project.")
@output.json_option
def stats(hours: int, project: str | None, as_json: bool) -> None:
    """Show throughput, success rate, durations, cost and queue age."""
    with connect() as detent:
        found = detent.call("stats", hours=hours, project=project)
    if as_json:
        output.print_json(found)
        return
    output.print_fields(("", f"last {found['hours']} hours"), _figures(found))
    if found["cost_per_day"]:
        output.print_text("")
        days = [
            (row["day"], f"{row['cost']:.2f}", str(row["runs"])) for row in found["cost_per_day"]
        ]
        output.print_table(("DAY", "COST IN DOLLARS", "RUNS"), days)
    if found["partial"]:
        output.print_note(f"These figures cover only the newest {found['looked_at']} runs.")


def _figures(found: Mapping[str, Any]) -> dict[str, str]:
    rate = found["success_rate"]
    by_state = (f"{count} {state}" for state, count in found["by_state"].items() if count)
    return {
        "runs ended": f"{found['ended']}",
        "": ", ".join(by_state),
        "per hour": f"{found['per_hour']:g}",
        "success rate": "none ended" if rate is None else f"{rate:.1%}",
        "duration p50": _seconds(found["durations"]["p50_s"]),
        "duration p95": _seconds(found["durations"]["p95_s"]),
        "queued jobs": f"{found['queued']}",
        "oldest queued": _seconds(found["oldest_queued_s"]),
    }


def _seconds(value: float | None) -> str:
    if value is None:
        return "none"
    if value < 120:
        return f"{value:.3g} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


# ---- state -----------------------------------------------------------------------------------


@click.group(cls=output.Group)
def state() -> None:
    """Read and set the values of the installation's state."""


@state.command()
@click.argument("name", required=False)
@output.json_option
def get(name: str | None, as_json: bool) -> None:
    """Print one value as JSON, or list all of them."""
    with connect() as detent:
        values = detent.call("show_state")["values"]
    if name is not None:
        if name not in values:
            from detent.errors import NotFound

            raise NotFound(
                f"The state has no value {name!r}.",
                known=sorted(values),
                hint="`detent state get` lists all values.",
            )
        output.print_json(values[name])
    elif as_json:
        output.print_json(values)
    else:
        output.print_fields(("NAME", "VALUE"), values)


@state.command("set")
@click.argument("name")
@click.argument("value")
@output.json_option
def set_it(name: str, value: str, as_json: bool) -> None:
    """Set one value to JSON or plain text; null removes it."""
    set_to = value_from(value)
    with connect() as detent:
        changed = detent.call("set_state", name=name, value=set_to)
    if as_json:
        output.print_json(changed["values"])
    else:
        output.print_text(f"{name}: {'removed' if set_to is None else output.value_text(set_to)}")
