"""The comparison: it finds fault with an unfenced queue and none with detent, and reports both."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.compare import command, report, scene, trials
from bench.compare.systems import SYSTEMS, System, version
from bench.peers.environments import Missing

UNFENCED = System(
    name="unfenced",
    script=str(Path(__file__).with_name("unfenced_queue.py")),
    environment=None,
    store="sqlite",
    settings="none",
    source="none",
)
DETENT = next(each for each in SYSTEMS if each.name == "detent, SQLite")


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "QUIET_S", 0.5)
    monkeypatch.setattr(trials, "SETTLE_S", 0.1)


# ---- trials -------------------------------------------------------------------------------------


def test_an_unfenced_queue_accepts_the_stale_result() -> None:
    found = trials.stopped(UNFENCED, late=False, takeover_s=30)
    assert found["accepted"] is True
    assert found["effects"] == 2
    assert found["restarted"] is False
    assert report.stale(found) == "**accepted**"


def test_a_stale_result_is_found_after_the_second_run_too() -> None:
    found = trials.stopped(UNFENCED, late=True, takeover_s=30)
    assert found["accepted"] is True


def test_detent_rejects_the_stale_result_and_its_effect() -> None:
    found = trials.stopped(DETENT, late=False, takeover_s=30)
    assert found["accepted"] is False
    assert (found["first_parts"], found["effects"]) == (1, 1)
    assert found["state"] == "completed"


def test_a_queue_without_keys_repeats_what_is_submitted_twice() -> None:
    found = trials.duplicates(UNFENCED)
    assert (found["together"], found["running"], found["ended"]) == (found["keys"], 1, 1)


def test_a_queue_without_steps_repeats_the_finished_part_of_a_killed_worker() -> None:
    found = trials.killed(UNFENCED, takeover_s=30)
    assert found["restarted"] is False
    assert found["first_parts"] == 2
    assert report.first_part(found) == "**repeated**"
    assert report.job(found) == "done"


def test_a_tool_whose_worker_cannot_start_has_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no such broker')", encoding="utf-8")
    monkeypatch.setattr(scene, "ANSWER_S", 30.0)
    system = UNFENCED._replace(script=str(broken))
    found = command.tried(system, trials=["killed"], takeover_s=1)
    assert "no such broker" in found["failed"]["killed"]
    assert not found["trials"]
    with pytest.raises(Missing):
        trials.killed(system, takeover_s=1)


def test_a_client_that_has_ended_has_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("no such broker\n", encoding="utf-8")
    pipe, ended = subprocess.PIPE, [sys.executable, "-c", ""]
    with subprocess.Popen(ended, stdin=pipe, stdout=pipe, text=True) as process:
        process.wait()
        client = scene.Client(process, log)
        with pytest.raises(Missing, match="no such broker"):
            client.call("state")
        client.close()


# ---- the report ---------------------------------------------------------------------------------


def outcome(**changes: Any) -> dict[str, Any]:
    usual = {"again_s": 5.2, "restarted": False, "accepted": False, "effects": 1, "first_parts": 1}
    return {**usual, "ended": True, "state": "completed", **changes}


def document() -> dict[str, Any]:
    lost = outcome(again_s=None, restarted=True, ended=False, effects=0, state="PENDING")
    good = {"stopped": [outcome()], "stopped-late": [outcome()], "killed": [outcome()]}
    bad = {"killed": [lost], "stopped": [outcome(accepted=True, again_s=7.9), outcome(), lost]}
    usual = {"version": "1.0", "settings": "none", "source": "a page", "key": ""}
    return {
        "systems": [
            {**usual, "name": "good", "trials": good, "failed": {"long": "it did not start"}},
            {**usual, "name": "bad", "trials": bad, "failed": {}},
        ]
    }


def test_the_terminal_and_the_page_say_the_same() -> None:
    page = list(report.markdown(document(), "killed"))
    assert page[2:] == [
        "| good | after 5 s | done | kept | 1 | – |",
        "| bad | never | **not done** (PENDING) | – | 0 | – |",
    ]
    text = "\n".join(report.lines(document()))
    assert "not done (PENDING)" in text
    assert "Not tried: good, long: it did not start." in text
    assert "**" not in text


def test_repetitions_that_differ_are_counted() -> None:
    row = list(report.markdown(document(), "stopped"))[-1]
    assert "| after 5 – 8 s (2 of 3), never (1 of 3) |" in row
    assert "| **accepted** (1 of 3), rejected (2 of 3) |" in row
    assert report.repetitions(document()) == "1 to 3"


def test_a_takeover_says_whether_it_needed_a_restart() -> None:
    assert report.handed_over(outcome(restarted=True)) == "by a restart, after"
    assert report.handed_over(outcome(again_s=None, restarted=True)) == "never"
    assert report.stale(outcome(accepted=None)) == "no second run"


def test_a_refused_duplicate_is_reported_with_the_error() -> None:
    found = {"running": 0, "running_refused": "AlreadyEnqueued: there is one"}
    assert report.repeated("running")(found) == "once (refused: AlreadyEnqueued)"


def test_settings_link_to_their_source() -> None:
    found = document()
    found["systems"][0]["source"] = "https://tool.example/docs/py/"
    found["systems"][1]["source"] = "docs/reference/settings.md"
    rows = list(report.settings(found))
    assert "| [settings](https://tool.example/docs/py/) |" in rows[2]
    assert "| [settings](../reference/settings.md) |" in rows[3]


# ---- what there is ------------------------------------------------------------------------------


def test_every_tool_has_a_script_a_version_and_the_source_of_its_settings() -> None:
    for each in SYSTEMS:
        assert (scene.SCRIPTS / each.script).exists(), each.name
        assert each.environment is None or version(each), each.name
        assert each.source, each.name
    assert len({each.name for each in SYSTEMS}) == len(SYSTEMS)


def test_tools_are_chosen_by_a_prefix_and_detent_is_always_among_them() -> None:
    names = [each.name for each in command.chosen(["pgq"])]
    assert names == ["detent, SQLite", "detent, PostgreSQL", "pgqueuer"]
