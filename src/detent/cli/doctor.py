"""`detent doctor`: check the installation and print how to fix each problem."""

import sys

import click

from detent.cli import output


@click.command()
@output.json_option
def doctor(as_json: bool) -> None:
    """Check this installation for problems and print how to fix them.

    The exit code is 1 if there is a problem. Nothing is changed. `detent verify` checks the data.
    """
    from detent.cli.config_checks import check_configuration
    from detent.cli.doctor_checks import check_installation

    loaded, found = check_configuration()
    if loaded is not None:
        found += check_installation(loaded.settings)
    if as_json:
        output.print_json({"findings": [each._asdict() for each in found]})
    else:
        for each in found:
            mark = "ok" if each.well else "FAIL"
            output.print_text(f"{mark:5}  {each.name}: {each.what}")
            if not each.well:
                output.print_text(f"       {each.remedy}")
    sys.exit(0 if all(each.well for each in found) else 1)
