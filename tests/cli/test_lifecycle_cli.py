"""`detent lifecycle` as a person and as a program uses it."""

import codecs
import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli
from detent.kernel.lifecycle_json import export
from detent.task_lifecycles import all_lifecycles

LIFECYCLES = all_lifecycles()
pytestmark = pytest.mark.usefixtures("data")


def detent(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["lifecycle", *arguments], input=stdin)


def answer(*arguments: str, stdin: str | bytes | None = None) -> Any:
    return json.loads(detent(*arguments, "--json", stdin=stdin).stdout)


def test_list_names_the_five() -> None:
    names = ["board", "review", "job", "step", "run"]
    assert [line.split()[0] for line in detent("list").stdout.splitlines()[1:]] == names
    assert [each["name"] for each in answer("list")["items"]] == names


@pytest.mark.parametrize("name", LIFECYCLES)
def test_show_has_every_state_and_row(name: str) -> None:
    shown = detent("show", name.upper()).stdout
    for state in LIFECYCLES[name].states:
        assert f"{state.name} " in shown
        assert state.meaning in shown
    for row in LIFECYCLES[name].rows:
        assert row.why in shown
    lines = [line.split() for line in shown.splitlines() if line]
    extensions = [line for line in lines if line[-1] == "ext"]
    assert len(extensions) == sum(row.extension for row in LIFECYCLES[name].rows)
    assert answer("show", name) == export(LIFECYCLES[name])


def test_show_marks_the_one_way_out_of_an_end() -> None:
    reopening = [line for line in detent("show", "job").stdout.splitlines() if "reopens" in line]
    assert [line.split()[:2] for line in reopening] == [["failed", "job_requeued"]]


def test_export_has_every_row_with_who_why_and_its_mark() -> None:
    exported = {each["name"]: each for each in answer("export")}
    assert list(exported) == ["board", "review", "job", "step", "run"]
    job = exported["job"]
    assert (job["initial"], job["terminal"]) == ("queued", ["completed", "failed", "cancelled"])
    assert job["states"][:3] == ["queued", "running", "waiting"]
    parked = next(row for row in job["rows"] if row["event"] == "job_parked")
    assert (parked["source"], parked["target"], parked["extension"]) == ("waiting", "parked", True)
    created = next(row for row in job["rows"] if row["event"] == "job_created")
    assert (created["source"], created["extension"]) == (None, False)
    for each in exported.values():
        for row in each["rows"]:
            assert row["who"]
            assert row["why"]
    assert detent("export").stdout == detent("export", "--json").stdout


@pytest.mark.parametrize(
    ("kind", "begins"), [("mermaid", "stateDiagram-v2"), ("dot", 'digraph "job"'), ("svg", "<svg ")]
)
def test_diagram_draws_in_each_format(kind: str, begins: str) -> None:
    drawn = detent("diagram", "job", "--format", kind).stdout
    assert drawn.startswith(begins)
    assert answer("diagram", "JOB", "--format", kind) == {
        "name": "job",
        "format": kind,
        "text": drawn,
    }


def simulated(*arguments: str) -> tuple[int, list[tuple[str, ...]]]:
    """The exit code, and each step: event, what each fold made of it, and the states after it."""
    result = detent("simulate", *arguments, "--json")
    keys = ("event", "strict", "lenient", "strict_state", "lenient_state")
    steps = json.loads(result.stdout)["steps"]
    assert all(tuple(step) == keys for step in steps)
    return result.exit_code, [tuple(step.values()) for step in steps]


def test_simulate_follows_a_legal_stream() -> None:
    assert simulated("job", "job_created", "job_running") == (
        0,
        [
            ("job_created", "queued", "queued", "queued", "queued"),
            ("job_running", "running", "running", "running", "running"),
        ],
    )


def test_simulate_shows_the_states_after_refused_and_ignored_events_too() -> None:
    events = ["plan_generated", "Job_Created", "plan_generated", "job_completed", "JOB_RUNNING"]
    assert simulated("JOB", *events, "job_completed") == (
        1,
        [
            ("plan_generated", "ignored", "ignored", None, None),
            ("job_created", "queued", "queued", "queued", "queued"),
            ("plan_generated", "ignored", "ignored", "queued", "queued"),
            ("job_completed", "refused", "completed", "queued", "completed"),
            ("job_running", "running", "running", "running", "running"),
            ("job_completed", "completed", "completed", "completed", "completed"),
        ],
    )


def test_simulate_tells_a_person_what_would_have_been_legal() -> None:
    result = detent("simulate", "run", "run_queued", "run_failed")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].split() == [
        "run_failed",
        "refused",
        "✖",
        "failed",
        "run_started,",
        "run_cancelled",
    ]


def test_check_finds_nothing_in_the_export(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(detent("export").stdout, encoding="utf-8")
    result = detent("check", str(file))
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"{name}: no errors" for name in LIFECYCLES]


def test_check_prints_flaws_and_fails() -> None:
    flawed = export(LIFECYCLES["run"])
    flawed["initial"] = "asleep"
    result = detent("check", "-", stdin=json.dumps(flawed))
    assert result.exit_code == 1
    assert "run: The initial state 'asleep' is not among the states." in result.stdout
    [found] = answer("check", "-", stdin=json.dumps(flawed))["lifecycles"]
    assert found["name"] == "run"
    assert len(found["flaws"]) == 2


def test_check_names_the_file_that_is_not_utf_8_and_reads_a_byte_order_mark(tmp_path: Path) -> None:
    text = resources.files("detent.task_lifecycles").joinpath("board.toml").read_bytes()
    file = tmp_path / "own.toml"
    file.write_bytes(codecs.BOM_UTF8 + text)
    assert detent("check", str(file)).exit_code == 0
    file.write_bytes(b"# first line\n# caf\xe9\n" + text)
    refused = detent("check", str(file)).stderr
    assert "own.toml:2: The file is not UTF-8 text." in refused
    assert "Save the file with the encoding UTF-8." in refused
    tables = tmp_path / "own.json"
    tables.write_bytes(b"\xff\xfe\x00\x80")
    assert "own.json: The file is not JSON" in detent("check", str(tables)).stderr


@pytest.mark.parametrize(
    ("content", "exit_code", "message"),
    [
        (b"not json", 2, "The file is not JSON"),
        (b"\xff\xfe\x00\x80", 2, "The file is not JSON"),
        (b"[" * 100_000, 2, "The file is not JSON"),
        (b"[]", 2, "The file contains no lifecycle."),
        (b"{}", 2, "lifecycle.name is missing"),
        (b'[{"name": []}]', 2, "[0].name must be a string, not []"),
        (b" " * 1_000_001, 5, "larger than 1000000 bytes"),
    ],
    ids=["text", "bytes", "depth", "empty", "no name", "type", "size"],
)
def test_check_refuses_what_is_no_lifecycle(content: bytes, exit_code: int, message: str) -> None:
    result = detent("check", "-", stdin=content)
    assert result.exit_code == exit_code
    assert message in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments",
    [("show", "nope"), ("diagram", "nope"), ("simulate", "nope", "job_created")],
    ids=lambda arguments: str(arguments[0]),
)
def test_an_unknown_lifecycle_lists_the_known(arguments: tuple[str, ...]) -> None:
    result = detent(*arguments)
    assert result.exit_code == 3
    assert "There is no lifecycle 'nope'. Known: board, review, job, step, run." in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("check", "missing.json"), ("diagram", "job", "--format", "png"), ("simulate", "job")],
    ids=lambda arguments: str(arguments[0]),
)
def test_wrong_usage_says_so(arguments: tuple[str, ...]) -> None:
    result = detent(*arguments)
    assert result.exit_code == 2
    assert "Usage: " in result.stderr


def _program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "detent", "lifecycle", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_program_exits_by_the_table_and_prints_no_traceback() -> None:
    for arguments, exit_code in (
        (["simulate", "job", "job_created", "--json"], 0),
        (["simulate", "job", "job_running", "--json"], 1),
        (["show", "nope"], 3),
    ):
        ended = _program(*arguments)
        assert ended.returncode == exit_code
        assert "Traceback" not in ended.stderr
