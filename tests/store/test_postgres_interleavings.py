"""Writers on a real PostgreSQL, interleaved statement by statement; and broken variants of them."""

from collections.abc import Iterator

import pytest

from tests.sampling import sampled
from verification.interleavings import explore
from verification.interleavings.exploration import Exploration
from verification.interleavings.mutants import MUTANTS, NOTICED_BY
from verification.interleavings.scenarios import SCENARIOS
from verification.memory_directory import directory_in_memory
from verification.mutant import applied
from verification.postgres_server import Server

#: `python -m verification.fault_injection --store postgres --part interleavings` makes many more.
RUNS = 48
#: The number of schedules of its scenario within which a mutant is noticed.
RUNS_OF_A_MUTANT = 40
#: The message for each mutant.
NOTICED = {
    "heartbeat-of-any-worker": "P5: w1 renewed the lease of w0",
    "heartbeat-of-any-fence": "P5: a claim that was taken away is renewed",
    "arrival-read-after-the-lanes": "P3: w0 does not see",
    "claim-waits-for-locked-rows": "a claim waited for a row",
    "lease-without-its-fence": "P4: w0 holds",
    "commit-id-before-the-locks": "P7: version",
    "feed-of-unsequenced-commits": "P7: a reader missed",
    "sequencer-skips-a-gap": "P7: a reader missed",
    "remembered-rank-never-reset": "urgent jobs",
    "stale-version-of-a-job": "P8",
    "blanking-ignores-the-stream": "P9: blanking touched another job",
    "named-rows-without-lock": "a change of a named row was lost",
    "keys-without-lock": "P2: one key has the answers",
    "limits-without-lock": "run under a limit of one",
    "chain-blocks-without-lock": "duplicate key value",
    "submission-without-its-lifecycle": "a task has the lifecycle that was removed",
    "missed-root-is-awaited": "a writer was rolled back",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with (
        directory_in_memory("detent-pg-") as directory,
        Server.start(directory, settings={"deadlock_timeout": "100ms"}) as started,
    ):
        yield started


def test_every_promise_holds_under_every_schedule(server: Server) -> None:
    found = explore(server, RUNS, say=print)
    assert not found.problems
    assert found.runs == RUNS
    assert found.waits >= RUNS / 2


@pytest.mark.parametrize("name", sampled(MUTANTS, 5))
def test_a_mutant_is_caught(server: Server, name: str) -> None:
    with applied(MUTANTS[name]):
        found = explore(server, RUNS_OF_A_MUTANT, scenarios=[NOTICED_BY[MUTANTS[name]]])
    assert any(NOTICED[name] in each for each in found.problems), found.problems


def test_every_scenario_of_a_mutant_passes_without_it(server: Server) -> None:
    scenarios = sorted({*NOTICED_BY.values()})
    assert {*scenarios} <= {*SCENARIOS}
    assert not explore(server, 4 * len(scenarios), 1_000, scenarios).problems


def test_too_few_interleavings_are_a_problem() -> None:
    found = Exploration(runs=10, waits=5, interleavings={("claims", (0, 1))})
    assert found.shortfalls() == [f"too few distinct interleavings: {found.line()}"]
