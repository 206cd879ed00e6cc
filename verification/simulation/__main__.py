"""`python -m verification.simulation`: run seeds, tell what was seen; exit 1 if one fails."""

import click

from verification.simulation import MUTANTS, simulate


@click.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--seeds", default=1, show_default=True, help="How many seeds, one after the other.")
@click.option("--steps", default=2_000, show_default=True, help="Steps of each run.")
@click.option("--mutant", type=click.Choice(sorted(MUTANTS)), help="Run a broken variant.")
@click.option("--variants", is_flag=True, help="Let a client choose between variants of tasks.")
def main(seed: int, seeds: int, steps: int, mutant: str | None, variants: bool) -> None:
    """Simulate the engine on SQLite: a seed is a run, and the same seed is the same run."""
    failed = False
    for each in range(seed, seed + seeds):
        outcome = simulate(each, steps, mutant, variants=variants)
        click.echo("\n".join(outcome.lines()))
        failed = failed or outcome.found is not None
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
