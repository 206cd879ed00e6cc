"""The figures in the documentation are written from the last run, and goals judged by it."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench import harness
from bench.harness import Benchmark, Result
from bench.publish import command as publish
from bench.publish import figures as kept
from bench.publish import goals, pages
from bench.publish.figures import Figures
from bench.race import report
from bench.race.entrants import SQLITE
from bench.race.lap import Size
from bench.race.report import Race


def race(own: float, huey: float, bare: float) -> dict[str, Any]:
    made = Race(Size())
    for factor in (0.9, 1.0, 1.1):
        made.note(SQLITE, {"end-to-end": own * factor})
        made.note("Huey, fsync", {"end-to-end": huey * factor})
        made.note("bare rows, SQLite", {"end-to-end": bare * factor})
    return report.document(made, {"PostgreSQL": "18"})


def workload(name: str, rows: dict[str, list[float]], less: bool = False) -> Result:
    benchmark = Benchmark(name, "How long?", "ms", lambda _: (), (), less, rivals=False)
    return Result(benchmark, rows)


def measured(*results: Result) -> dict[str, Any]:
    return {**harness.document(list(results)), "scale": 1.0, "repetitions": 3}


def section(name: str, figures: Figures) -> str:
    return "\n".join(pages.TABLES[name](figures))


# ---- the pages of this repository ---------------------------------------------------------------


@pytest.mark.parametrize("page", pages.PAGES)
def test_no_figure_of_a_page_was_typed_by_hand(page: str) -> None:
    text = (pages.DOCS / page).read_text("utf-8")
    assert pages.written(text, Figures.read()) == text, "run ./dev bench publish --only-pages"


def test_every_table_has_a_place_on_a_page() -> None:
    texts = [(pages.DOCS / page).read_text("utf-8") for page in pages.PAGES]
    named = [name for text in texts for _, name, _ in pages.REGION.findall(text)]
    assert sorted(named) == sorted(pages.TABLES)


# ---- writing ------------------------------------------------------------------------------------


def test_a_page_is_written_between_its_markers_and_nowhere_else() -> None:
    text = "before\n<!-- figures: goals -->\nold\n<!-- /figures -->\nafter\n"
    figures = Figures({"race": race(own=300, huey=100, bare=400)})
    new = pages.written(text, figures)
    assert new.startswith("before\n<!-- figures: goals -->\n")
    assert new.endswith("<!-- /figures -->\nafter\n")
    assert "old" not in new
    assert pages.written(new, figures) == new


def test_how_long_it_took_is_reported_by_section() -> None:
    figures = Figures({"race": {"took_s": 600}, "machines": {"took_s": 150}})
    assert section("took", figures).endswith("in minutes: race 10, machines 2.")


def test_what_was_not_measured_says_so() -> None:
    text = "<!-- figures: budget -->\n<!-- /figures -->"
    assert pages.NOT_YET in pages.written(text, Figures({}))


def test_a_section_that_is_measured_again_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, docs = tmp_path / "figures.json", tmp_path / "docs"
    shutil.copytree(pages.DOCS / "explanation", docs / "explanation")
    (docs / "images").mkdir()
    file.write_text(json.dumps({"workloads": measured(workload("budget-sqlite", {"plan": [7.0]}))}))
    monkeypatch.setitem(publish.MEASURES, "race", lambda _wish: race(300, 100, 400))
    assert publish.main(["race", "--figures", str(file), "--docs", str(docs)]) == 0
    assert set(json.loads(file.read_text())) == {"workloads", "race"}
    page = (docs / "explanation" / "performance.md").read_text("utf-8")
    assert re.search(r"\| plan \| 7 \(7 – 7\) \|", page)
    assert "| Huey, fsync | 100 (90 – 110)<br>3× (3 – 3) |" in page
    assert [each.name for each in (docs / "images").iterdir()] == ["race-end-to-end.svg"]


def test_some_workloads_are_measured_again_and_say_the_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, docs = tmp_path / "figures.json", tmp_path / "docs"
    shutil.copytree(pages.DOCS / "explanation", docs / "explanation")
    before = measured(
        *(workload(name, {"detent": [7.0]}) for name in ("jobs-sqlite-100", "recovery"))
    )
    file.write_text(json.dumps({"workloads": {**before, "took_s": 60}}))
    again = Benchmark(
        "jobs-sqlite-100", "?", "ms", lambda _: (harness.Contestant("it", lambda: 5),)
    )
    monkeypatch.setattr("bench.__main__.benchmarks", lambda: [again])
    arguments = ["workloads", "--only", "jobs-", "--figures", str(file), "--docs", str(docs)]
    assert publish.main(arguments) == 0
    section = json.loads(file.read_text())["workloads"]
    assert [each["name"] for each in section["benchmarks"]] == ["jobs-sqlite-100", "recovery"]
    assert section["took_s"] == 60
    assert section["benchmarks"][0]["contestants"][0]["figures"] == [5, 5, 5]
    page = (docs / "explanation" / "performance.md").read_text("utf-8")
    assert page.count("Measured later than the others, at load") == 1


def test_a_workload_that_fails_is_named_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_scale: harness.Scale) -> tuple[harness.Contestant, ...]:
        raise RuntimeError("no such table")

    good = Benchmark("good", "How long?", "ms", lambda _: (harness.Contestant("it", lambda: 1.0),))
    bad = Benchmark("bad", "How long?", "ms", broken)
    monkeypatch.setattr("bench.__main__.benchmarks", lambda: [bad, good])
    found = publish.workloads(publish.Wish(harness.Scale(0.1), 2))
    assert found["failed"] == {"bad": "RuntimeError: no such table"}
    assert [each["name"] for each in found["benchmarks"]] == ["good"]
    assert publish.faults({"workloads": found}) == ["bad failed: RuntimeError: no such table"]
    assert "`bad` failed and is missing" in section(
        "workloads-machine", Figures({"workloads": found})
    )


def test_the_race_is_the_same_when_it_is_read_back() -> None:
    document = json.loads(json.dumps(race(300, 100, 400)))
    assert (
        report.document(report.read(document), document["versions"])["benchmarks"]
        == (document["benchmarks"])
    )


# ---- goals --------------------------------------------------------------------------------------


def test_a_goal_is_judged_by_the_worst_of_its_figures() -> None:
    figures = Figures({"race": race(own=300, huey=100, bare=1000)})
    text = section("goals", figures)
    assert (
        "faster than every durable peer | detent, SQLite to Huey, fsync: 3 × (3 – 3) | met |"
        in (text)
    )
    assert "60 % of bare rows | detent, SQLite to bare rows, SQLite: 0.3 × (0.3 – 0.3) | " in (text)
    assert "missed by 2 ×" in text
    assert text.count("not measured") == len(goals.GOALS) - 2


def test_a_goal_of_a_figure_is_missed_by_what_is_too_much() -> None:
    slow = workload("start-help", {"detent --help": [160.0, 170.0, 150.0]}, less=True)
    row = next(
        line
        for line in goals.table(Figures({"workloads": measured(slow)}))
        if "detent --help` within" in line
    )
    assert row.endswith("160 ms (150 – 170) | missed by 2 × |")


def test_every_goal_names_figures_that_are_measured() -> None:
    from bench.__main__ import benchmarks
    from bench.harness import Scale

    some = {each.name: each for each in benchmarks()}
    document = Figures.read(kept.FILE)
    assert [goal.text for goal in goals.GOALS if not [*goal.reached(document)]] == []
    stored = {each["name"] for each in document.section("workloads")["benchmarks"]}
    assert stored <= some.keys()
    for store in goals.STORES:
        names = [each.name for each in some[f"finished-{store}"].contestants(Scale(1e-6))]
        assert {"1,000,000 finished", "1,000 finished"} <= set(names)


def test_a_goal_that_only_the_middle_meets_is_not_met_each_time() -> None:
    now_and_then = workload("start-help", {"detent --help": [60.0, 70.0, 90.0]}, less=True)
    rows = list(goals.table(Figures({"workloads": measured(now_and_then)})))
    assert any("met by the median, not by every repetition" in row for row in rows)


# ---- several machines, and the arithmetic -----------------------------------------------------


def test_costs_are_carried_on_to_a_thousand_jobs_a_second() -> None:
    counted = ("transactions", "rows inserted", "rows updated", "rows deleted")
    cost = {
        **{name: [2.0] for name in counted},
        "of them in place": [0.0],
        "bytes of its log": [5_000.0],
        "bytes kept": [4_000.0],
        "server, µs of processor": [300.0],
        "detent, µs of processor": [200.0],
    }
    figures = Figures({"workloads": measured(workload("cost-postgres-100", cost))})
    assert "| server cores | 0.3 |" in section("a-thousand-jobs", figures)
    assert "| write-ahead log | 5 MB/s, 18 GB per hour |" in section("a-thousand-jobs", figures)
    assert "| 10,000 | 3 | 0.75 | 3.46 TB | 0.864 | 50 MB/s |" in section("shards", figures)


def test_a_restart_is_reported_with_what_was_lost() -> None:
    scene = {"acknowledged": 40, "lost": 0, "made_twice": 0, "differences": 0, "longest_gap_s": 1.5}
    row = {"workers": 1, "work": "nothing", "jobs_per_s": 100.0, "server_connections": 7}
    document = {
        "machine": {"cores": 2},
        "size": Size()._asdict() | {"nothing": 1, "sleep": 1, "submissions": 40, "rate": 100},
        "missing": {"pooler": "there is no PgBouncer"},
        "direct": {"throughput": [{**row, "by_machine": {"worker1": 4}}], "restart": scene},
        "failover": scene,
    }
    figures = Figures({"machines": document})
    assert "| failover to a synchronous standby | 40 | 0 | 0 | 0 | 1.5 s |" in section(
        "machines-interrupted", figures
    )
    assert "| 1 | 100 | 1 × |" in section("machines-throughput", figures)
    assert "| 1 | 7 | – | worker1 4 |" in section("machines-connections", figures)
    assert "there is no PgBouncer" in section("machines-setup", figures)
