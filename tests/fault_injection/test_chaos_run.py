"""A short chaos run on each store, races for a verdict, and the parts of the command."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from detent.store.store_url import open_store
from verification.fault_injection import parts, races
from verification.fault_injection.__main__ import fault_injection
from verification.fault_injection.chaos_run import ChaosRun, Plan
from verification.fault_injection.matrix import Databases
from verification.fault_injection.process_supervisor import ProcessSupervisor
from verification.simulation import FLOORS, Outcome

#: Six seconds of faults, and then peace; longer on a machine where that shows too little.
MINUTES = 1 / 10
#: `./dev faults` runs fifty times as many.
RACES = 200


@pytest.mark.timeout(900)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_cluster_keeps_its_promises_in_a_chaos_run(
    store: str, supervisor: ProcessSupervisor, where: Path
) -> None:
    report = ChaosRun(Plan(1, MINUTES, store), supervisor, where, lambda _: None).run()
    assert report.problems == [], "\n".join([*report.lines(), report.plan.command()])


@pytest.mark.timeout(1200)
def test_accept_reject_and_cancel_have_one_winner(stores: Databases | None, where: Path) -> None:
    if stores is None:
        found = races.run(lambda: open_store(str(where / "races.db")), RACES)
    else:
        with stores.one() as url:
            found = races.run(lambda: open_store(url), RACES)
    assert found.problems == []
    assert found.races == RACES


def test_the_command_runs_a_part_and_says_what_it_saw() -> None:
    result = CliRunner().invoke(
        fault_injection,
        ["--store", "sqlite", "--part", "disk", "--part", "races", "--quick", "--json"],
    )
    assert result.exit_code == 0, result.output
    results = json.loads(result.stdout)["results"]
    assert [(each["part"], each["problems"]) for each in results] == [("disk", []), ("races", [])]
    assert "200 races" in results[1]["seen"]


def test_a_part_that_fails_leaves_a_bundle_and_its_replay(
    monkeypatch: pytest.MonkeyPatch, supervisor: ProcessSupervisor
) -> None:
    def broken(at: parts.Session) -> None:
        (at.where / "seen").write_text("something")
        at.result.problems.append("P1: lost")

    monkeypatch.setattr(parts, "PARTS", {"races": broken})
    result = parts.run("races", parts.Order(seed=5), supervisor, lambda _: None)
    assert (Path(result.bundle) / "seen").read_text() == "something"
    assert (
        result.replay
        == "python -m verification.fault_injection --store sqlite --seed 5 --part races"
    )
    (Path(result.bundle) / "seen").unlink()
    Path(result.bundle).rmdir()


@pytest.mark.parametrize(
    ("seen", "failure", "problem"),
    [
        ([9_000, 1], None, ""),
        ([1, 1], None, "too little happened: operations: 2, at least 6666"),
        ([9_000, 9_000], "P6: done twice", "  P6: done twice"),
    ],
)
def test_the_seeds_of_a_simulation_are_enough_together(
    monkeypatch: pytest.MonkeyPatch,
    supervisor: ProcessSupervisor,
    seen: list[int],
    failure: str | None,
    problem: str,
) -> None:
    def simulated(seed: int, steps: int) -> Outcome:
        counts = {**dict.fromkeys(FLOORS, steps), "steps": steps, "operations": seen[seed - 1]}
        return Outcome(seed, steps, Counter(counts), failure)

    monkeypatch.setattr(parts, "simulate", simulated)
    result = parts.run("simulation", parts.Order(steps=20_000), supervisor, lambda _: None)
    assert bool(result.problems) == bool(problem)
    assert not problem or problem in result.problems
    if result.bundle:
        Path(result.bundle).rmdir()


def test_an_unknown_fault_is_refused() -> None:
    result = CliRunner().invoke(fault_injection, ["--faults", "earthquake"])
    assert result.exit_code != 0
    assert "earthquake" in str(result.exception)
