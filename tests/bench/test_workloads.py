"""The workloads of the benchmarks once, at a small scale, on real stores.

Where several differ in a number alone, one of them is run; where each contestant starts processes
of its own, the first one is. `./dev bench --scale 0.01` runs them all.
"""

import math
import re
from itertools import groupby

import pytest

from bench import ROOT, harness
from bench import __main__ as command
from bench.harness import Benchmark, Scale
from bench.workloads import jobs_postgres
from verification.postgres_server import Cluster

QUICK = Scale(0.0002)
#: Other libraries are fetched for it.
NOT_HERE = ("kernel.walk",)
#: Names that begin alike are of workloads that differ in a number alone.
ALIKE = ("http.page", "http.submit", "workers-", "cost-postgres-", "jobs-sqlite", "jobs-postgres")
#: Their contestants start processes, which costs seconds: the first one shows that it runs.
PROCESSES = ("http.", "workers-", "feed.", "start-up", "recovery")
#: What may be nothing at so small a scale.
MAY_BE_ZERO = ("of them in place", "worker's memory")


def quick() -> list[Benchmark]:
    every = [each for each in command.benchmarks() if each.name not in NOT_HERE]
    return [next(group) for _, group in groupby(every, key=_family)]


def _family(benchmark: Benchmark) -> str:
    return next((each for each in ALIKE if benchmark.name.startswith(each)), benchmark.name)


@pytest.mark.parametrize("benchmark", quick(), ids=lambda each: each.name)
def test_a_workload_yields_figures(
    benchmark: Benchmark, postgres_server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_postgres, "server", lambda: postgres_server)
    contestants = benchmark.contestants(QUICK)
    some = 1 if benchmark.name.startswith(PROCESSES) else len(contestants)
    figures = {each.name: each.measure() for each in contestants[:some]}
    for name, figure in figures.items():
        assert math.isfinite(figure), name
        assert figure > 0 or name in MAY_BE_ZERO, name
    names = [each.name for each in contestants]
    assert len(names) == len(set(names))
    for aim in benchmark.aims:
        assert {aim.over or names[0], aim.who or names[0]} <= set(names)


def test_every_kind_of_workload_is_there() -> None:
    names = {each.name for each in command.benchmarks()}
    both = ("submit", "end-to-end", "pick-up-idle", "pick-up-half", "finished", "queued", "waiting")
    wanted = {f"{each}-{store}" for each in both for store in ("sqlite", "postgres")}
    wanted |= {"submit-many", "http.submit", "jobs-sqlite-100", "jobs-postgres-100"}
    wanted |= {"workflows", "signals", "fan-out", "recovery", "start-help", "start-up"}
    assert wanted | {"workers-nothing", "workers-compute", "workers-sleep"} <= names


def test_the_readme_lists_every_workload() -> None:
    text = (ROOT / "bench" / "README.md").read_text("utf-8")
    table = text.partition("| name | what it measures")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines()[2:]]
    named = tuple(each.rstrip("…") for cell in first for each in re.findall(r"`([^`]+)`", cell))
    assert [each.name for each in command.benchmarks() if not each.name.startswith(named)] == []


def test_the_question_and_the_figures_are_reported() -> None:
    benchmark = next(each for each in command.benchmarks() if each.name == "submit-sqlite")
    result = harness.run(benchmark, 2, QUICK)
    text = "\n".join(harness.table(result))
    assert benchmark.question in text
    assert [len(figures) for figures in result.figures.values()] == [2, 2]
