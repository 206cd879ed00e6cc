"""`detent doctor`: check the installation and print how to fix each problem."""

import sys
from typing import TYPE_CHECKING

import click

from detent.cli import output

if TYPE_CHECKING:
    from detent.cli.finding import Finding


@click.command()
@output.json_option
def doctor(as_json: bool) -> None:
    """Check this installation for problems and print how to fix them.

    If commands use a gateway on another machine, the connection to it and the token are checked.
    The exit code is 1 if there is a problem. Nothing is changed. `detent verify` checks the data.
    """
    found = _findings()
    if as_json:
        output.print_json({"findings": [each._asdict() for each in found]})
    else:
        for each in found:
            mark = "ok" if each.well else "FAIL"
            output.print_text(f"{mark:5}  {each.name}: {each.what}")
            if not each.well:
                output.print_text(f"       {each.remedy}")
    sys.exit(0 if all(each.well for each in found) else 1)


def _findings() -> "list[Finding]":
    """The findings about the gateway that is set, else about the installation of this machine."""
    from detent.cli.target_checks import check_target, names_this_machine

    if not names_this_machine():
        return check_target()
    from detent.cli.config_checks import check_configuration
    from detent.cli.doctor_checks import check_installation

    loaded, found = check_configuration()
    if loaded is not None:
        found += check_installation(loaded.settings)
        if loaded.settings.github_token or loaded.settings.gitlab_token:
            from detent.cli.forge_checks import forges  # imported late: few use it

            found += forges(loaded.settings)
    return [*check_target(), *found]
