"""The benchmarks' harness: turns, medians, ratios, aims, and how they are printed."""

import json
from pathlib import Path

import pytest

from bench import __main__ as command
from bench.harness import Aim, Benchmark, Contestant, Result, Scale, Spread, parts, run, table
from bench.workloads.kernel import BENCHMARKS, life, log
from bench.workloads.walk import EVENTS, STATES, rate


def benchmark(aims: tuple[Aim, ...] = (), less_is_better: bool = False) -> Benchmark:
    return Benchmark("a.race", "who wins?", "laps/s", lambda _: (), aims, less_is_better)


def test_contestants_take_turns_and_each_repetition_begins_with_another() -> None:
    turns: list[str] = []

    def contestant(name: str, figure: float) -> Contestant:
        return Contestant(name, lambda: turns.append(name) or figure)  # type: ignore[func-returns-value]

    both = (contestant("hare", 9), contestant("snail", 3))
    race = Benchmark("a.race", "who wins?", "laps/s", lambda _: both)
    result = run(race, 3)
    assert turns == ["hare", "snail", "snail", "hare", "hare", "snail"]
    assert result.figures == {"hare": [9, 9, 9], "snail": [3, 3, 3]}


def test_a_ratio_is_taken_inside_each_repetition() -> None:
    result = Result(benchmark(), {"hare": [10, 40, 90], "snail": [10, 20, 30]})
    assert result.spread("hare") == Spread(40, 10, 90)
    assert result.ratio("hare", "snail") == Spread(2, 1, 3)


def test_where_less_is_better_the_ratio_is_turned_round() -> None:
    result = Result(benchmark(less_is_better=True), {"hare": [1, 2], "snail": [4, 8]})
    assert result.ratio("hare", "snail") == Spread(4, 4, 4)


def test_an_aim_is_a_figure_or_a_ratio() -> None:
    aims = (Aim(40), Aim(41), Aim(2, "snail"), Aim(1, "hare", "snail"))
    result = Result(benchmark(aims), {"hare": [40], "snail": [20]})
    assert result.missed() == [aims[1], aims[3]]
    text = "\n".join(table(result))
    assert "aim: hare, 40 laps/s: met with 40" in text
    assert "aim: snail, 1 × hare: missed with 0.5" in text
    assert "hare is better by" in text


def test_where_less_is_better_a_figure_is_to_be_stayed_below() -> None:
    aims = (Aim(5), Aim(3))
    result = Result(benchmark(aims, less_is_better=True), {"hare": [4]})
    assert result.missed() == [aims[1]]


def test_a_share_of_the_work_is_never_less_than_it_takes() -> None:
    assert Scale().of(300) == 300
    assert Scale(0.1).of(300) == 30
    assert Scale(0.001).of(300, least=10) == 10


def test_figures_of_one_run_share_it() -> None:
    runs = iter([{"p50": 1.0, "p99": 2.0}, {"p50": 3.0, "p99": 4.0}])
    race = Benchmark(
        "a.race", "who wins?", "ms", lambda _: parts(("p50", "p99"), lambda: next(runs))
    )
    assert run(race, 2).figures == {"p50": [1, 3], "p99": [2, 4]}


def test_every_module_with_a_table_is_found() -> None:
    assert set(BENCHMARKS) <= set(command.benchmarks())


def test_names_choose_by_their_beginning() -> None:
    assert [each.name for each in command.chosen(["kernel.wa"])] == ["kernel.walk"]
    with pytest.raises(SystemExit, match=r"no benchmark nothing\. Known: .*kernel\.fold"):
        command.chosen(["nothing"])


def test_a_run_prints_a_table_and_writes_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "figures.json"
    code = command.main(["kernel.decide", "--repetitions", "2", "--json", str(written)])
    assert code == 0
    assert "kernel.decide" in capsys.readouterr().out
    (entry,) = json.loads(written.read_text())["benchmarks"]
    assert [each["name"] for each in entry["contestants"]] == [
        "a whole job",
        "submit",
        "claim",
        "complete",
    ]
    assert all(len(each["figures"]) == 2 for each in entry["contestants"])


def test_the_measured_log_is_that_of_jobs_that_succeed() -> None:
    names = [record.event.name for record in log()[-1]]
    assert names[0] == "job_created"
    assert names[-1] == "job_completed"
    assert len(life("j")) == 3


def test_the_walk_has_five_states_and_ends_where_it_began() -> None:
    assert len(STATES) == 5
    assert len(EVENTS) == 9
    assert rate("detent-fold", 0.01) > 0
    assert rate("detent-next", 0.01) > 0
