"""`python -m verification.patroni`: failovers under load; prints what was seen and what is wrong.

`./dev faults --only failovers` runs several rounds, and one with Patroni's default times; a test
runs one fault with short times.
"""

import json
import sys
from dataclasses import asdict

import click

from verification.memory_directory import directory_in_memory
from verification.patroni import private_namespaces
from verification.patroni.configuration import DEFAULTS, SHORT, Timing
from verification.patroni.failovers import FAULTS, Outcome, run


@click.command()
@click.option("--rounds", default=1, show_default=True, help="How often each fault is injected.")
@click.option("--fault", multiple=True, type=click.Choice(FAULTS), help="This one; repeatable.")
@click.option("--defaults", is_flag=True, help="Also one round with Patroni's default times.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(rounds: int, fault: tuple[str, ...], defaults: bool, as_json: bool) -> None:
    """Kill, cut off and switch over the leader of a Patroni cluster under load."""
    faults = fault or FAULTS
    runs = [(SHORT, rounds), *([(DEFAULTS, 1)] if defaults else [])]
    found = []
    for timing, count in runs:
        outcome = _run(timing, faults * count)
        found.append({"timing": timing._asdict(), **asdict(outcome)})
        if not as_json:
            _show(timing, outcome)
    if as_json:
        click.echo(json.dumps(found))
    sys.exit(1 if any(each["problems"] for each in found) else 0)


def _show(timing: Timing, outcome: Outcome) -> None:
    click.echo(f"ttl {timing.ttl} s: {outcome.line()}")
    for problem in outcome.problems:
        click.echo(f"  {problem}")


def _run(timing: Timing, faults: tuple[str, ...]) -> Outcome:
    """The outcome in a new cluster; in a second one if the first had no leader before any fault.

    On a busy machine the first leader can lose its key before its standbys follow it, and Patroni
    then promotes no other node. This says nothing about detent. Every other problem counts.
    """
    outcome = _run_once(timing, faults)
    if outcome.without_leader:
        click.echo(f"a new cluster is made after {outcome.problems}", err=True)
        outcome = _run_once(timing, faults)
    return outcome


def _run_once(timing: Timing, faults: tuple[str, ...]) -> Outcome:
    with directory_in_memory("detent-patroni-") as directory:
        return run(directory, timing, faults)


if __name__ == "__main__":
    private_namespaces.enter("verification.patroni")
    main()
