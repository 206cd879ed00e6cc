"""The race's own logic: turns, who is missing and why, when a difference counts, and the report."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import __main__ as bench_command
from bench.harness import Spread
from bench.peers import environments, stores
from bench.peers.environments import Environment, Missing
from bench.race import command, entrants, lap, report
from bench.race.chart import chart
from bench.race.entrants import BARE, ENTRANTS, POSTGRES, SQLITE, Entrant
from bench.race.lap import Size
from bench.race.report import CLOSE, MEASURED, Race
from bench.workloads import budget, jobs_postgres
from verification.postgres_server import Cluster

SMALL = Size(jobs=200, singles=100, pick_ups=4, workflows=2)
BY_NAME = {each.name: each for each in ENTRANTS}


def raced() -> Race:
    """Three of the field, three repetitions; one figure apart, one too close."""
    race = Race(SMALL)
    for figure in (900.0, 1000.0, 1100.0):
        race.note(SQLITE, {"drain": figure, "pick-up p50": figure / 500})
        race.note("Huey, fsync", {"drain": figure / 2, "pick-up p50": figure / 450})
        race.note(POSTGRES, {"drain": figure / 4})
    return race


# ---- the turns, and who cannot take part --------------------------------------------------------


def test_each_repetition_begins_with_another_entrant() -> None:
    three = ENTRANTS[:3]
    order = [each.name for each in command.turns(three, 3)]
    names = [each.name for each in three]
    assert order == [*names, names[1], names[2], names[0], names[2], names[0], names[1]]


def test_a_failed_contestant_is_named_with_the_reason_and_is_not_tried_again() -> None:
    tried: list[str] = []

    def once(entrant: Entrant, _size: Size) -> Mapping[str, float]:
        tried.append(entrant.name)
        if entrant.name == "absurd" and tried.count("absurd") == 2:
            raise Missing("it fell over")
        return {"drain": 10.0}

    race = command.run([BY_NAME[SQLITE], BY_NAME["absurd"]], SMALL, 3, once)
    assert tried.count("absurd") == 2
    assert tried.count(SQLITE) == 3
    assert race.missing == {"absurd": "it fell over"}
    assert race.figures == {"drain": {SQLITE: [10.0, 10.0, 10.0]}}
    assert "Not in the race: absurd: it fell over" in list(report.lines_of(race, {}))


def test_a_fault_of_ours_costs_the_others_nothing() -> None:
    def once(entrant: Entrant, _size: Size) -> Mapping[str, float]:
        if entrant.script == BARE:
            raise KeyError("position")
        return {"drain": 10.0}

    race = command.run([BY_NAME[SQLITE], BY_NAME["bare rows, SQLite"]], SMALL, 2, once)
    assert race.missing == {"bare rows, SQLite": "KeyError: 'position'"}
    assert race.figures == {"drain": {SQLITE: [10.0, 10.0]}}


def test_an_environment_that_cannot_be_made_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nowhere.txt").write_text("no-such-package==1\n", encoding="utf-8")
    monkeypatch.setattr(environments, "PINS", tmp_path)
    monkeypatch.setattr(environments, "MADE", tmp_path / "made")
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    with pytest.raises(Missing, match=r"no uv in \.tools"):
        environments.home(Environment("nowhere"))
    assert not list((tmp_path / "made").glob("*/complete"))


def test_an_installer_that_complains_gives_the_reason() -> None:
    script = "import sys; sys.stderr.write('warning: old\\nerror: no such Python\\n'); sys.exit(2)"
    with pytest.raises(Missing, match=r"^error: no such Python$"):
        environments._do([sys.executable, "-c", script])


def test_a_script_that_fails_gives_its_last_words() -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", "raise SystemExit('no table jobs')"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        pytest.raises(Missing, match="no table jobs"),
    ):
        lap._answer(process)


def test_a_machine_without_redis_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr(stores, "home", lambda _environment: tmp_path)
    with pytest.raises(Missing, match="no redis-server"):
        stores.redis_server()


# ---- figures ------------------------------------------------------------------------------------


def test_end_to_end_is_a_jobs_share_of_enqueuing_and_draining() -> None:
    sent = {"single_s": 1.0, "together_s": 0.25, "bulk_s": 0.5, "together": 50, "enqueued": 350}
    found = lap.throughput(SMALL, sent, 3.5)
    assert found == {
        "enqueue": 100,
        "enqueue together": 200,
        "bulk": 400,
        "drain": 100,
        "end-to-end": 80,
    }


def test_without_a_bulk_call_the_next_quickest_way_counts() -> None:
    sent = {"single_s": 1.0, "together_s": None, "bulk_s": None, "together": 50, "enqueued": 350}
    found = lap.throughput(SMALL, sent, 3.5)
    assert found == {"enqueue": 100, "drain": 100, "end-to-end": 50}


def test_a_slow_contestant_gets_fewer_jobs_and_workflows_and_the_same_of_all_else() -> None:
    slow = next(each for each in ENTRANTS if each.share < 0.1)
    whole = Size(jobs=200, singles=100, pick_ups=4, workflows=100)
    share = (round(200 * slow.share), round(100 * slow.share))
    assert whole.of(slow) == whole._replace(jobs=share[0], workflows=share[1])


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_bare_rows_are_those_that_detent_writes(
    kind: str, postgres_server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_postgres, "server", lambda: postgres_server)
    bare = next(each for each in ENTRANTS if each.script == BARE and each.store == kind)
    (figure,) = lap.once(bare, SMALL).values()
    assert figure > 0


def test_latency_is_reported_as_p50_and_p99() -> None:
    found = lap.latency([float(number) for number in range(1, 102)])
    assert found["pick-up p50"] == 51
    assert found["pick-up p99"] > 99


# ---- the verdict and the report -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Spread(2, 1, 3), Spread(5, 4, 6), False),
        (Spread(5, 4, 6), Spread(2, 1, 3), False),
        (Spread(2, 1, 3), Spread(4, 3, 5), True),
        (Spread(2, 1, 9), Spread(4, 3, 5), True),
    ],
)
def test_spreads_overlap_when_they_share_a_figure(
    one: Spread, other: Spread, expected: bool
) -> None:
    assert report.overlap(one, other) is expected


def test_a_difference_counts_only_if_the_spreads_are_apart() -> None:
    race, huey = raced(), BY_NAME["Huey, fsync"]
    assert report.verdict(race.result("drain"), huey) == "2× (2 – 2)"
    assert report.verdict(race.result("pick-up p50"), huey) == CLOSE
    assert report.verdict(race.result("drain"), BY_NAME[SQLITE]) == ""


def test_one_repetition_has_no_spread_and_tells_no_difference() -> None:
    race = Race(SMALL)
    race.note(SQLITE, {"drain": 1000.0})
    race.note("Huey, fsync", {"drain": 10.0})
    assert report.verdict(race.result("drain"), BY_NAME["Huey, fsync"]) == report.ONCE


def test_everyone_is_held_against_the_detent_on_a_store_like_theirs() -> None:
    for each in ENTRANTS:
        assert each.against == (SQLITE if each.store == "sqlite" else POSTGRES)


def test_the_report_has_figures_verdicts_settings_and_versions() -> None:
    output = "\n".join(report.lines_of(raced(), {"Redis": "9.9"}))
    assert "Redis 9.9" in output
    assert "race.drain" in output
    assert "2× (2 – 2)" in output
    assert CLOSE in output
    for each in ENTRANTS:
        assert each.settings in output


def test_the_page_and_the_document_say_the_same() -> None:
    race = raced()
    page = list(report.markdown(race))
    assert [line for line in page if line.startswith("| | ")] == [
        "| | drain, jobs/s |",
        "| | pick-up p50, ms |",
    ]
    assert "| Huey, fsync | 500 (450 – 550)<br>2× (2 – 2) |" in page
    assert "| Huey, fsync | 2.22 (2 – 2.44)<br>too close |" in page
    document = json.loads(json.dumps(report.document(race, {})))
    drain = next(each for each in document["benchmarks"] if each["name"] == "drain")
    assert drain["contestants"][0]["figures"] == [900, 1000, 1100]
    assert drain["contestants"][2]["detent_is_better_by"] == "2× (2 – 2)"


def test_the_chart_is_well_formed_and_sorted_by_the_better_one() -> None:
    root = ElementTree.fromstring(chart(raced(), "drain"))
    space = "{http://www.w3.org/2000/svg}"
    widths = [float(each.attrib["width"]) for each in root.iter(f"{space}rect")]
    assert widths == sorted(widths, reverse=True)
    assert len(widths) == 3
    assert all(width > 0 for width in widths)


def test_a_part_counts_its_own_time_and_not_that_of_the_parts_it_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([0, 10, 30, 60, 100, 150])
    monkeypatch.setattr("time.thread_time_ns", lambda: next(clock))
    timers = budget.Timers()
    timers.start()
    inner = timers.around("SQL", int)
    timers.around("save", inner)()
    timers.switch()
    assert timers.spent_ns == {"rest": 10 + 50, "save": 20 + 40, "SQL": 30}


# ---- what there is ------------------------------------------------------------------------------


def test_every_entrant_has_a_script_and_pinned_packages() -> None:
    for each in ENTRANTS:
        assert each.script == BARE or (lap.SCRIPTS / each.script).exists(), each.name
        assert each.environment is None or entrants.packages(each), each.name
        assert each.script == BARE or each.source, each.name


def test_npm_takes_exactly_the_pinned_versions_and_names_no_place_to_get_them() -> None:
    lock = json.loads((environments.PINS / "node" / "package-lock.json").read_text("utf-8"))
    for name, pin in environments.pinned(environments.NODE).items():
        assert lock["packages"][f"node_modules/{name}"]["version"] == pin
    assert not [each for each in lock["packages"].values() if "resolved" in each]


def test_peers_are_chosen_by_the_beginning_of_their_names_and_detent_always_runs() -> None:
    assert [each.name for each in command.chosen(["pgq"])] == [
        SQLITE,
        POSTGRES,
        "bare rows, SQLite",
        "bare rows, PostgreSQL",
        "pgqueuer",
        "pgqueuer, batches",
    ]


def test_the_race_is_a_command_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def main(arguments: list[str]) -> int:
        seen.append(arguments)
        return 0

    monkeypatch.setattr(command, "main", main)
    assert bench_command.main(["race", "--repetitions", "1"]) == 0
    assert seen == [["--repetitions", "1"]]
    assert set(MEASURED) >= set(raced().figures)
