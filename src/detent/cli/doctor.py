"""`detent doctor`: what is wrong with this installation, and what to do about it."""

import sys

import click

from detent.cli import output


@click.command()
@output.json_option
def doctor(as_json: bool) -> None:
    """Look for what is wrong with this installation.

    Ends with 1 if something is. Changes nothing; `detent verify` looks at the data itself.
    """
    from detent.cli.config_checks import configured
    from detent.cli.doctor_checks import examine

    loaded, found = configured()
    if loaded is not None:
        found += examine(loaded.settings)
    if as_json:
        output.print_json({"findings": [each._asdict() for each in found]})
    else:
        for each in found:
            mark = "ok" if each.well else "WRONG"
            output.print_text(f"{mark:5}  {each.name}: {each.what}")
            if not each.well:
                output.print_text(f"       {each.remedy}")
    sys.exit(0 if all(each.well for each in found) else 1)
