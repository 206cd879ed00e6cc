"""`python -m verification.lifecycle_model`: check logs of simulations against the TLA+ model."""

import click

from detent.task_lifecycles import SHIPPED
from verification.lifecycle_model.trace_check import Checked, check_log, records_of, transitions_of
from verification.simulation.simulation_run import simulate


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", default=4, show_default=True, help="How many seeds.")
@click.option("--steps", default=4_000, show_default=True, help="Steps of each run.")
def main(seed: int, seeds: int, steps: int) -> None:
    """Simulate with injected faults; exit 1 if an event is no step of the model."""
    allowed = {name: transitions_of(each) for name, each in SHIPPED.items()}
    found: list[Checked] = []
    for each in range(seed, seed + seeds):
        simulate(
            each, steps, keep_log=lambda log: found.append(check_log(records_of(log), allowed))
        )
    offences = [offence for checked in found for offence in checked.offences]
    tasks, moves = sum(each.tasks for each in found), sum(each.steps for each in found)
    click.echo(f"{seeds} logs, {tasks} tasks, {moves} steps of the model, {len(offences)} offences")
    for offence in offences:
        click.echo(str(offence))
    raise SystemExit(bool(offences))


if __name__ == "__main__":
    main()
