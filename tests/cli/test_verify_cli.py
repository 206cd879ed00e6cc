"""`detent verify` and `detent rebuild`: what they find and repair, and when they refuse."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import Result

from detent import server_file
from detent.engine import Engine
from detent.testing.audit import picture
from detent.testing.conformance.work_actions import submit_job
from tests.cli.databases import alter, opened, worker_row

Run = Callable[..., Result]


def differences(run: Run, *options: str) -> list[dict[str, Any]]:
    found = json.loads(run("verify", "--json", *options, code=1).stdout)["differences"]
    assert found
    return list(found)


# ---- verify ------------------------------------------------------------------------------------


def test_verify_seals_and_says_where_the_chain_stands(run: Run, data: Path, job: str) -> None:
    verdict = json.loads(run("verify", "--json").stdout)
    assert verdict["differences"] == []
    assert verdict["timers_checked"] is True
    assert verdict["anchor"]["position"] == verdict["position"] == verdict["events"] > 0
    assert verdict["anchor"]["chain"] in run("verify").stdout


def test_verify_names_the_row_that_was_changed(run: Run, data: Path, job: str) -> None:
    alter(data / "detent.db", f"UPDATE jobs SET fence = 7 WHERE id = '{job}'")
    (found,) = differences(run)
    assert (found["stream"], found["what"], found["field"]) == (job, "job", "fence")
    assert (found["log"], found["row"]) == (1, 7)
    shown = run("verify", code=1).stdout
    assert job in shown
    assert "fence" in shown


def test_verify_names_the_range_whose_data_was_changed(run: Run, data: Path, job: str) -> None:
    run("verify")
    alter(
        data / "detent.db",
        "UPDATE events SET data = replace(data, 'secret', 'public') WHERE position = 1",
        "UPDATE jobs SET payload = replace(payload, 'secret', 'public')",
    )
    (found,) = differences(run)
    assert (found["what"], found["field"]) == ("seal", "chain")


def test_verify_finds_a_deadline_that_is_gone(run: Run, data: Path) -> None:
    with opened(data) as store:
        submit_job(Engine(store), options={"job_timeout_ms": 60_000})
    run("verify")
    alter(data / "detent.db", "DELETE FROM deadlines")
    assert {each["what"] for each in differences(run)} == {"deadline"}


def test_an_anchor_finds_a_cut_tail(run: Run, data: Path, job: str, tmp_path: Path) -> None:
    anchor = str(tmp_path / "anchor.json")
    run("db", "backup", "early.db")
    with opened(data) as store:
        submit_job(Engine(store))
    run("verify", "--write-anchor", anchor)
    run("verify", "--anchor", anchor)
    run("db", "restore", "early.db")
    run("verify")
    (found,) = differences(run, "--anchor", anchor)
    assert found["field"] == "anchor"


def test_a_long_log_shows_progress_beside_the_answer(
    run: Run, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("verify").stderr == ""
    monkeypatch.setattr("detent.cli.verify.NOTE_EVERY", 5)
    result = run("verify", "--json")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["chain", "fold"]
    assert json.loads(result.stdout)["differences"] == []


def test_deleted_seals_are_named_with_what_to_do(run: Run, data: Path, job: str) -> None:
    run("verify")
    alter(
        data / "detent.db",
        "DELETE FROM seals",
        "UPDATE events SET actor = 'eve' WHERE position = 2",
    )
    run("verify", "--write-anchor", "anchor.json", code=1)
    assert not Path("anchor.json").exists()
    shown = run("verify", code=1).stdout
    assert "removed" in shown
    assert "--accept-unsealed" in shown
    assert "Clean" not in shown
    (found,) = json.loads(run("verify", "--json", code=1).stdout)["unsealed"]
    assert found["what"] == "removed"
    assert "Clean" in run("verify", "--accept-unsealed").stdout


def test_no_anchor_is_written_of_what_is_wrong(run: Run, data: Path, job: str) -> None:
    alter(data / "detent.db", "UPDATE jobs SET fence = 7")
    run("verify", "--write-anchor", "anchor.json", code=1)
    assert not Path("anchor.json").exists()


def test_an_anchor_that_cannot_be_written_is_said(run: Run, job: str) -> None:
    assert "cannot be written" in run("verify", "--write-anchor", "no/where", code=2).stderr


def test_what_is_no_anchor_is_refused(run: Run, job: str) -> None:
    Path("anchor.json").write_text("{}")
    assert "is not an anchor file" in run("verify", "--anchor", "anchor.json", code=2).stderr


# ---- rebuild -----------------------------------------------------------------------------------


def test_rebuild_repairs_rows(run: Run, data: Path, job: str) -> None:
    with opened(data) as store:
        before = picture(store)
    alter(data / "detent.db", "UPDATE jobs SET fence = 7", "DELETE FROM tasks", "DELETE FROM queue")
    run("verify", code=1)
    assert "Clean" in run("rebuild").stdout
    with opened(data) as store:
        assert picture(store) == before


def gateway_file(data: Path) -> None:
    process = psutil.Process()
    server = {
        "url": "http://127.0.0.1:1",
        "pid": process.pid,
        "began": server_file.began(process.pid),
    }
    (data / "server.json").write_text(json.dumps(server))


@pytest.mark.parametrize("command", [("rebuild",), ("db", "restore", "b.db")])
@pytest.mark.parametrize("live", [worker_row, gateway_file])
def test_what_is_in_use_is_left_alone(
    run: Run, data: Path, job: str, command: tuple[str, ...], live: Callable[[Path], None]
) -> None:
    run("db", "backup", "b.db")
    live(data)
    assert "is in use by" in run(*command, code=1).stderr


@pytest.mark.parametrize("gone", [{"pid": 2**22 + 1}, {"host": "elsewhere", "seen_at": 1}])
def test_a_worker_that_is_gone_hinders_nobody(
    run: Run, data: Path, job: str, gone: dict[str, Any]
) -> None:
    worker_row(data, **gone)
    run("rebuild")
