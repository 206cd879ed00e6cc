"""The engine keeps its promises in simulated chaos runs, and no broken variant of it passes."""

import pytest
from click.testing import CliRunner

from tests.sampling import FULL, sampled
from tests.simulation.conftest import Simulated
from verification.mutant import applied
from verification.simulation import FLOORS, MUTANTS, Outcome, simulate
from verification.simulation.__main__ import main
from verification.simulation.report import MIN_REQUIRED, required

#: Together 102,000 steps: from 100,000 on every kind of event is counted, and the rarest decides. A
#: new seed is worth more than a longer run, and each has its end to pay. `./dev test` runs every
#: second seed; `./dev faults` runs all of them, and 1,000,000 steps with others.
SEEDS, STEPS = (*range(16), 22), 6_000
EVERY = 2
#: What a mutant is caught with; the seeds above, which pass without it.
MUTANT_SEEDS, MUTANT_STEPS = SEEDS, 1_500
#: The seed that is tried first where seed 0 does not catch a mutant. The other seeds follow, so
#: that a change of the simulation costs time, and no test.
FIRST_SEED = {
    **dict.fromkeys(("fence-checked-in-another-transaction", "wait-is-not-fenced"), 1),
    **dict.fromkeys(("answers-are-mixed-up", "budget-ignores-new-subtasks"), 1),
    **dict.fromkeys(("hold-never-ends", "switch-goes-back"), 1),
    **dict.fromkeys(("new-plan-forgets-what-is-done", "finished-plan-is-not-ended"), 14),
    **dict.fromkeys(("breaker-never-closes", "half-open-breaker-admits-all"), 1),
    "limited-provider-is-used": 3,
    "claim-ignores-what-steps-need": 2,
    "lease-is-judged-by-the-wall-clock": 22,
    "rate-is-not-kept": 1,
    "schedule-fires-twice": 53,
    "step-ignores-budget": 9,
    "evidence-is-not-fenced": 3,
    "pause-is-ignored-by-claims": 3,
    "start-is-not-fenced": 4,
    "claim-ignores-budget": 7,
}
#: The rule that a mutant breaks, where it could break another one as well: what is reported.
RULES = {
    "pause-is-ignored-by-claims": "has started while",
    "pause-ends-without-an-event": "has started while",
    "rate-is-not-kept": "starts under",
    "schedule-fires-twice": "has fired",
    "interval-drifts": "schedules: often has fired",
    "other-variants-go-on": "goes on although",
    "second-variant-is-chosen": "a second variant",
    "breaker-never-closes": "providers: the rows say",
    "half-open-breaker-admits-all": "tries the half-open",
    "switch-ignores-the-intent": "and may not",
    "limited-provider-is-used": "is limited or open",
}


@pytest.mark.parametrize("seed", sampled(SEEDS, EVERY))
def test_every_promise_holds(simulated: Simulated, seed: int) -> None:
    outcome = simulated(seed, STEPS)
    assert outcome.found is None, "\n".join(outcome.lines())
    assert outcome.counts["steps"] >= STEPS


@pytest.mark.parametrize("seed", [0, 1])
def test_a_choice_between_variants_is_made_once_and_stops_the_others(seed: int) -> None:
    outcome = simulate(seed, 2_000, variants=True)
    assert outcome.failure is None, "\n".join(outcome.lines())
    assert outcome.counts["variants chosen"] >= 2
    assert outcome.replay().endswith("--variants")


def test_a_build_simulates_enough_steps_to_count_the_rarest_kind() -> None:
    assert len(SEEDS) * STEPS == 102_000 >= max(FLOORS.values()) * MIN_REQUIRED


@pytest.mark.parametrize("name", sampled(MUTANTS, 5))
def test_a_mutant_is_caught(name: str) -> None:
    """By a broken promise, not by a count that is too low, with seeds that pass without it."""
    seeds = dict.fromkeys((FIRST_SEED.get(name, 0), *MUTANT_SEEDS))
    runs = (simulate(seed, MUTANT_STEPS, name) for seed in seeds)
    caught = next((run for run in runs if run.failure), None)
    assert caught is not None
    assert RULES.get(name, "") in str(caught.failure)
    assert caught.replay().endswith(f"--steps {MUTANT_STEPS} --mutant {name}")


def test_the_same_seed_is_the_same_run() -> None:
    """Also after every mutant has come and gone."""
    first = simulate(7, 300)
    for name in MUTANTS:
        with applied(MUTANTS[name]):
            pass
    again = simulate(7, 300)
    assert (again.digest, again.counts) == (first.digest, first.counts)
    assert simulate(8, 300).digest != first.digest


def test_a_run_in_which_too_little_happens_fails() -> None:
    outcome = Outcome(seed=3, steps=STEPS)
    assert outcome.found is not None
    for name in ("operations", "refusals", "reclaims", "cancels", "deaths"):
        assert f"{name}: 0, at least" in outcome.found
    assert f"--seed 3 --steps {STEPS}" in outcome.lines()[-1]


def test_a_rare_kind_is_counted_over_several_runs_only() -> None:
    rare, steps = max(FLOORS.items(), key=lambda item: item[1])
    assert rare not in required(steps * MIN_REQUIRED - 1)
    assert required(steps * MIN_REQUIRED)[rare] == MIN_REQUIRED


def test_the_runs_of_a_build_are_about_plans_money_limits_and_schedules_too() -> None:
    wanted = {"steps succeeded", "switches", "critic rejects", "replans"}
    wanted |= {"waits for a resource", "budgets spent", "budgets raised"}
    wanted |= {"dismissals", "outcomes handled"}
    wanted |= {"provider limits", "breakers opened", "breakers closed", "trials"}
    wanted |= {"pauses", "pauses expired", "starts under a rate", "schedules fired"}
    assert wanted < required(len(SEEDS) * STEPS).keys() == FLOORS.keys()


@pytest.mark.parametrize(
    "seeds", [SEEDS[::EVERY], pytest.param(SEEDS, marks=FULL)], ids=["sample", "all"]
)
def test_enough_happens_in_the_runs_of_a_build(
    simulated: Simulated, seeds: tuple[int, ...]
) -> None:
    """Of each kind in all runs together; these are the runs of the test of the promises."""
    total = Outcome(SEEDS[0], len(seeds) * STEPS)
    for seed in seeds:
        total.counts += simulated(seed, STEPS).counts
    assert total.shortfalls() == []


def test_a_failure_prints_the_command_that_replays_it() -> None:
    arguments = ["--seed", "0", "--steps", "200", "--mutant", "attempts-not-counted"]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 1
    assert "P13" in shown.output
    replay = "replay: python -m verification.simulation " + " ".join(arguments)
    assert shown.output.splitlines()[-1].strip() == replay
    assert CliRunner().invoke(main, arguments).output == shown.output
