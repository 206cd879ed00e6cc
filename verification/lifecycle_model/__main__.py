"""`python -m verification.lifecycle_model`: check logs of simulations against the TLA+ model."""

import click

from verification.lifecycle_model.task_traces import Traces, records_of, traces_of
from verification.lifecycle_model.trace_check import check
from verification.simulation.simulation_run import simulate


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", default=4, show_default=True, help="How many seeds.")
@click.option("--steps", default=4_000, show_default=True, help="Steps of each run.")
def main(seed: int, seeds: int, steps: int) -> None:
    """Simulate with injected faults; exit 1 if an event is no step of the model."""
    logs: list[Traces] = []
    for each in range(seed, seed + seeds):
        simulate(each, steps, keep_log=lambda log: logs.append(traces_of(records_of(log))))
    found = check(logs)
    click.echo(f"{seeds} logs, {found.line()}")
    for offence in found.offences:
        click.echo(str(offence))
    raise SystemExit(bool(found.offences))


if __name__ == "__main__":
    main()
