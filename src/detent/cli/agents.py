"""`detent agents`: list the agents, whether they are installed, and whether they are signed in."""

import click

from detent.cli import output


@click.command()
@output.json_option
def agents(as_json: bool) -> None:
    """List agents and their status.

    Lists the agents of detent.toml and the presets: installed or not, version, signed in or not.
    Each installed program is started once, with --version. Secrets are not shown.
    """
    from detent.cli.agent_status import agent_statuses
    from detent.settings_loader import load

    found = agent_statuses(load())
    if as_json:
        output.print_json({"items": [each._asdict() for each in found]})
        return
    headings = ("NAME", "INSTALLED", "VERSION", "SIGNED IN", "WITH", "INTENTS", "PROGRAM")
    rows: list[tuple[output.Cell, ...]] = [
        (
            each.name,
            _mark(each.path is not None),
            each.version or each.version_error or "-",
            _mark(each.signed_in),
            each.credential or "-",
            ", ".join(each.intents) or "-",
            each.path or each.program,
        )
        for each in found
    ]
    output.print_table(headings, rows)


def _mark(value: bool | None) -> output.Cell:
    if value is None:
        return "unknown"
    return output.Styled("yes", "green") if value else output.Styled("no", "red")
