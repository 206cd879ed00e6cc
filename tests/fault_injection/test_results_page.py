"""`./dev faults`: what it runs, how it enters that into its effects, and when a soak is flat."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.fault_injection.test_chaos_run import RACES
from tests.faults.test_fuzz import EXAMPLES
from tests.faults.test_power import IMAGES
from tests.simulation.test_simulation import EVERY, SEEDS, STEPS
from tests.store.test_postgres_commit_order import COMMITS
from tests.store.test_postgres_stops import STOPS
from tools import faults
from tools.faults import Line
from verification.fault_injection import parts, soak
from verification.fuzzing.parsers import PARSERS


def test_a_part_is_run_on_each_store_that_it_is_about() -> None:
    on_files = len(faults.shards(faults.Size().steps)) + len(faults.ON_FILES) - 1
    others = len(faults.ON_POSTGRES) + len(faults.OF_THE_CLONE)
    count = len(faults.ON_BOTH) * 2 + on_files + others
    fuzzing = len([*faults.jobs(("fuzzing",), faults.Size())])
    # One part runs only if it is named, and the fuzzing is cut into several runs.
    assert len([*faults.jobs((), faults.Size())]) == count - 2 + fuzzing
    assert len([*faults.jobs((faults.ONLY_IF_NAMED,), faults.Size())]) == 1
    assert len([*faults.jobs(("soak", "disk"), faults.Size())]) == 3


def test_the_help_names_every_part_and_the_page_has_a_row_of_each() -> None:
    text = CliRunner().invoke(faults.main, ["--help"]).output
    rows = {line.split("|")[1].strip() for line in faults.RESULTS_PAGE.read_text().splitlines()[9:]}
    assert [part for part in faults.PARTS if part not in text.replace("\n", "")] == []
    assert [part for part in faults.PARTS if part not in rows] == []


def test_a_share_of_the_full_size() -> None:
    size = parts.FULL.share(0.1)
    assert (size.races, size.interleavings, size.freezes) == (500, 40, 6)
    assert (size.commits, size.rows) == (10_000, 100_000)
    assert parts.FULL.share(10).commits == 1_000_000
    assert size.seeds == parts.FULL.seeds


def test_the_page_about_testing_has_the_sizes() -> None:
    page = (faults.ROOT / "docs" / "explanation" / "testing.md").read_text("utf-8")
    full, size, simulated = parts.FULL, faults.Size(), len(SEEDS[::EVERY]) * STEPS
    assert (full.seeds, faults.FAILOVERS, size.minutes, full.soak_minutes) == (3, 2, 5, 5)
    for cell in (
        f"| {simulated:,} steps | {size.steps:,} steps |",
        f"| 48 runs | {full.interleavings} on each installed version of PostgreSQL |",
        "with `kill` on both | every action on both stores, with three seeds |",
        "| six seconds of faults on each store | five minutes on each store |",
        f"| {RACES} on each store | {full.races:,} on each store |",
        f"| {IMAGES:,} | {full.images:,} |",
        f"| {COMMITS:,} | {full.commits:,} |",
        f"| {STOPS} | {full.freezes} on each installed version of PostgreSQL |",
        "| one leader is cut off | each fault twice, and once with Patroni's default times |",
        f"{EXAMPLES} random texts for each parser | {faults.FUZZED_S} s of processor time",
    ):
        assert cell in page, cell


def test_the_simulation_is_cut_into_runs() -> None:
    assert faults.shards(1_200_000) == [500_000, 500_000, 200_000]


def test_the_results_page_keeps_what_was_not_run_again(tmp_path: Path) -> None:
    page = tmp_path / "effects.md"
    faults.enter([Line("races", "sqlite", "1", "5 races"), Line("disk", "sqlite", "1", "x")], page)
    faults.enter([Line("races", "sqlite", "2", "9 races", ["P12: a | b"])], page)
    first, second = page.read_text().removeprefix(faults.HEAD).splitlines()
    assert first.startswith("| races | sqlite | 2 | 9 races | **failed**: P12: a / b |")
    assert second.startswith("| disk | sqlite | 1 | x | passed |")
    assert "SQLite 3." in second


def test_runs_of_one_part_are_one_line() -> None:
    runs = [Line("simulation", "sqlite", str(n), "", counts={"steps": 10}) for n in (1_001, 1)]
    (line,) = faults.together(runs)
    assert (line.seed, line.seen) == ("1, 1001 and on", "2 runs: steps 20")


def test_runs_without_a_seed_are_one_line() -> None:
    runs = [Line("fuzzing", "-", "-", "", counts={"parsers": 10, "inputs": 1_000})] * 2
    (line,) = faults.together(runs)
    assert (line.seed, line.seen) == ("-", "2 runs: parsers 20, inputs 2,000")


def test_every_parser_is_fuzzed_once_and_its_inputs_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, float]] = []
    kept: list[str] = []

    def fuzzed(names: list[str], seconds: float, _: Path) -> Iterator[dict[str, Any]]:
        for name in names:
            asked.append((name, seconds))
            failed: dict[str, Any] = {"failed": []} if name == "body" else {"calls": 1_000}
            yield {"parser": name, "cpu_s": 19.6, **failed}

    monkeypatch.setattr("tools.fuzz.fuzzed", fuzzed)
    monkeypatch.setattr("tools.fuzz.keep_inputs", lambda result, _: kept.append(result["parser"]))
    (line,) = faults.together([job() for job in faults.jobs(("fuzzing",), faults.Size(share=2))])
    assert asked == [(name, 2 * faults.FUZZED_S) for name in PARSERS]
    assert kept == [*PARSERS]
    assert line.problems == ["body failed"]
    inputs, seconds = 1_000 * (len(PARSERS) - 1), 20 * len(PARSERS)
    assert f"parsers {len(PARSERS)}, seconds of processor time {seconds:,}" in line.seen
    assert line.seen.endswith(f"inputs {inputs:,}")


# ---- the soak --------------------------------------------------------------------------------

MB = 1 << 20


def samples(**last: int) -> list[soak.Sample]:
    flat = {"memory of the worker": 90 * MB, "wal": MB, "dead rows": 500, "bytes of the log": 0}
    grown = {name.replace("_", " "): value for name, value in last.items()}
    return [dict(flat)] * 30 + [{**flat, **grown}] * 10


def test_what_stays_as_it_is_is_flat() -> None:
    assert [*soak.grown(samples(dead_rows=1_500, bytes_of_the_log=900 * MB))] == []


@pytest.mark.parametrize(
    "last", [{"memory_of_the_worker": 150 * MB}, {"wal": 40 * MB}, {"dead_rows": 9_000}]
)
def test_what_grows_is_named(last: dict[str, int]) -> None:
    (problem,) = soak.grown(samples(**last))
    assert next(iter(last)).replace("_", " ") in problem


def test_a_soak_without_load_fails() -> None:
    assert [*soak.too_little(soak.Report(submitted=10), 10.0)]
