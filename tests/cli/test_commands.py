"""Every command that looks, as JSON and as a table at 60 and 200 columns, over hostile data."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detent.cli import output
from detent.cli.main import COMMANDS, cli
from detent.store import log_walk
from tests.operations.installation import LocalInstallation, local_installation

HOSTILE = "\x1b[31mred\x1b]0;owned\x07\u202eturned\nsecond\u2066 line\r\x9b5mend任务 " + "x" * 200
PLAN = {"steps": [{"name": "call", "intent": "runQA", "capabilities_required": ["call"]}]}

Made = dict[str, str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """An installation with some of everything, and a hostile title wherever one may stand."""
    directory = tmp_path_factory.mktemp("installation")
    with local_installation(directory) as place:
        ids = _fill(place)
    return {**ids, "data": str(directory)}


def _fill(place: LocalInstallation) -> Made:
    from detent.kernel import commands as c

    place.call("put_resource", name="phone", capabilities=["call"], labels={"os": HOSTILE[:40]})
    place.call("put_schedule", name="nightly", intent="runQA", cron="0 3 * * *")
    place.call("create_project", name=f"p{HOSTILE[:30]}")
    place.call("create_token", name="ci", scopes=["read"])
    place.call("set_state", name="release", value=HOSTILE)
    place.call("pause", intent="review")
    row = {"host": "h", "pid": 1, "seen_at": place.clock(), "intents": [HOSTILE]}
    place.put("workers", {"w": row})
    ready = place.submit(title=HOSTILE)
    (claimed,) = place.claim()
    place.complete(claimed)
    asking = place.submit(title="Asks", payload={"text": HOSTILE})
    (claimed,) = place.claim()
    run_id = str(claimed.job.run_id)
    detail = {"text": HOSTILE, "options": [HOSTILE, "no"]}
    place.report(c.SuspendRun(claimed.grant, run_id, "ask", "question", detail=detail))
    failed = place.submit()
    (claimed,) = place.claim()
    place.report(c.FailRun(claimed.grant, str(claimed.job.run_id), "error", HOSTILE, 1))
    spent = place.submit()
    (claimed,) = place.claim()
    over = {"text": "its costs exceed its budget"}
    run_id = str(claimed.job.run_id)
    place.report(c.SuspendRun(claimed.grant, run_id, "budget", "budget", detail=over))
    planned = place.submit(options={"plan": PLAN})
    (claimed,) = place.claim()
    place.report(c.StartStep(claimed.grant, "call"))
    ids = {"ready": ready, "asking": asking, "failed": failed, "spent": spent}
    return {**ids, "planned": planned}


@pytest.fixture
def run(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", made["data"])

    def invoke(*arguments: str, **environment: str) -> Result:
        filled = [each.format_map(made) for each in arguments]
        return CliRunner().invoke(cli, filled, env=environment)

    return invoke


#: Each command that only looks, with the exit code that it must end with.
LOOKS: dict[str, int] = {
    "tasks": 0,
    "tasks --active --state ready,blocked --sort created_at --limit 1": 0,
    "jobs": 0,
    "jobs --task {ready}": 0,
    "runs": 0,
    "runs --task {failed}": 0,
    "steps {planned}": 0,
    "steps {planned}-j1": 0,
    "show {asking}": 0,
    "show {failed}-j1": 0,
    "show {failed}-j1-r1": 0,
    "why {asking}": 0,
    "why {planned}-j1": 0,
    "inbox": 0,
    "health": 1,  # half of the runs failed
    "stats": 0,
    "state get": 0,
    "resources": 0,
    "workers": 0,
    "schedules": 0,
    "schedules next nightly": 0,
    "projects": 0,
    "projects show default": 0,
    "intents": 0,
    "limits": 0,
    "tokens": 0,
    "sessions": 0,
    "config show": 0,
    "watch --once": 0,
    "lifecycle list": 0,
    "lifecycle show step": 0,
    "db status": 0,
    "verify": 0,
}


@pytest.mark.parametrize("line", LOOKS)
def test_json_is_whole_and_ascii(run: Callable[..., Result], line: str) -> None:
    result = run(*line.split(), "--json")
    assert result.exit_code == LOOKS[line], result.output
    assert result.stdout.isascii()
    assert "\x1b" not in result.stdout
    json.loads(result.stdout)


@pytest.mark.parametrize("columns", [60, 200])
@pytest.mark.parametrize("line", LOOKS)
def test_a_table_fits_and_holds_nothing_that_a_terminal_obeys(
    run: Callable[..., Result], line: str, columns: int
) -> None:
    result = run(*line.split(), COLUMNS=str(columns))
    assert result.exit_code == LOOKS[line], result.output
    assert result.stdout.strip()
    assert output.clean(result.output) == result.output
    if line.split()[0] not in ("why", "verify", "lifecycle", "watch"):
        widest = max(map(output.display_width, result.stdout.splitlines()))
        assert widest <= columns, result.stdout


def test_a_row_stays_one_line_whatever_its_title_says(run: Callable[..., Result]) -> None:
    listed = run("tasks", COLUMNS="200").stdout.splitlines()
    assert len(listed) == 6
    assert "redturned second line" in listed[-1]
    assert listed[-1].index("runQA") == listed[0].index("INTENT") - listed[-1].count("任") * 2


def test_at_60_columns_id_state_and_title_are_left(run: Callable[..., Result]) -> None:
    head, *rows = run("tasks", COLUMNS="60").stdout.splitlines()
    assert head.split()[:3] == ["ID", "STATE", "TITLE"]
    assert "PROJECT" not in head
    assert any("…" in row for row in rows)


def test_a_pipe_gets_whole_columns(run: Callable[..., Result]) -> None:
    shown = run("tasks", COLUMNS="").stdout
    assert "x" * 200 in shown
    assert "…" not in shown


def test_pages_meet(run: Callable[..., Result]) -> None:
    first = json.loads(run("tasks", "--limit", "3", "--json").stdout)
    second = json.loads(run("tasks", "--limit", "3", "--cursor", first["cursor"], "--json").stdout)
    ids = [row["id"] for row in (*first["items"], *second["items"])]
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.parametrize("order", ["state_at", "-priority"])
def test_the_way_to_the_next_page_is_that_of_the_same_list(
    run: Callable[..., Result], order: str
) -> None:
    def ids(listed: Result) -> list[str]:
        return [line.split()[0] for line in listed.stdout.splitlines()[1:]]

    asked = ("tasks", "--active", "--search", "runQA", "--sort", order)
    first = run(*asked, "--limit", "1")
    second = run(*shlex.split(first.stderr.removeprefix("Next page: detent ")))
    assert [*ids(first), *ids(second)] == ids(run(*asked))[:2]


def test_the_way_to_the_next_page_names_the_gateway(run: Callable[..., Result]) -> None:
    first = run("tasks", "--limit", "1", "--local")
    assert first.exit_code == 0
    assert "detent tasks --limit 1 --local --cursor" in first.stderr


def test_runs_of_a_task_may_be_those_of_a_gateway(run: Callable[..., Result]) -> None:
    assert run("runs", "--task", "{failed}", "--json", "--local").exit_code == 0


def test_runs_of_a_task_are_not_filtered_in_silence(run: Callable[..., Result]) -> None:
    assert run("runs", "--task", "{failed}", "--json").exit_code == 0
    refused = run("runs", "--task", "{failed}", "--state", "succeeded")
    assert refused.exit_code == 2
    assert "cannot be combined with other options" in refused.stderr


def test_runs_have_the_title_of_their_task(run: Callable[..., Result], made: Made) -> None:
    head, *rows = run("runs", COLUMNS="").stdout.splitlines()
    assert head.split()[:3] == ["ID", "STATE", "TITLE"]
    (row,) = (each for each in rows if each.startswith(made["asking"]))
    assert row[head.index("TITLE") :].startswith("Asks ")
    assert "TITLE" not in run("runs", "--task", "{asking}").stdout
    run_id = row.split()[0]
    shown = json.loads(run("show", run_id, "--json").stdout)["run"]
    assert (shown["task_id"], shown["title"]) == (made["asking"], "Asks")


def test_show_has_the_error_of_a_failed_task(run: Callable[..., Result]) -> None:
    shown = run("show", "{failed}").stdout
    (line,) = (each for each in shown.splitlines() if each.startswith("error  "))
    assert "red" in line
    assert "\x1b" not in line


def test_show_tells_what_is_asked(run: Callable[..., Result]) -> None:
    shown = run("show", "{asking}").stdout
    assert re.search("^question ", shown, re.MULTILINE)
    assert "task_blocked" in shown
    why = run("why", "{asking}").stdout
    assert "cleared by a person (answer or cancel)" in why
    assert "None" not in why


def test_show_does_not_call_a_spent_budget_a_question(run: Callable[..., Result]) -> None:
    shown = run("show", "{spent}").stdout
    assert re.search("^reason +its costs exceed its budget$", shown, re.MULTILINE)
    assert not re.search("^(question|subtasks) ", shown, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        ("show", "task, job or run"),
        ("why", "task or job"),
        ("steps", "task or job"),
        ("logs", "task, job or run"),
        ("events", "task or job"),
        ("accept", "task"),
        ("runs create", "task or job"),
    ],
)
def test_an_unknown_id_is_reported_as_unknown(
    run: Callable[..., Result], command: str, kinds: str
) -> None:
    result = run(*command.split(), "unknown")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"detent: There is no {kinds} 'unknown'.")
    assert "Traceback" not in result.output


def test_events_are_lines_of_json(run: Callable[..., Result]) -> None:
    lines = [json.loads(line) for line in run("events", "{ready}", "--json").stdout.splitlines()]
    assert lines[0]["name"] == "task_created"
    later = run("events", "--after", str(lines[-1]["position"]), "--json").stdout.splitlines()
    assert json.loads(later[0])["position"] == lines[-1]["position"] + 1


def test_a_history_that_is_cut_off_says_how_to_go_on(run: Callable[..., Result]) -> None:
    first = run("events", "{ready}", "--limit", "2")
    assert len(first.stdout.splitlines()) == 2
    rest = run(*first.stderr.removeprefix("There may be more events: detent ").split())
    assert rest.stderr == ""
    assert first.stdout + rest.stdout == run("events", "{ready}").stdout


def test_events_go_on_behind_a_page_that_is_cut_by_its_bytes(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run("events", "--json").stdout
    monkeypatch.setattr(log_walk, "PAGE_BYTES", 1)
    assert run("events", "--json").stdout == whole
    assert run("events", "--json", "--limit", "2").stdout.splitlines() == whole.splitlines()[:2]


def test_a_value_of_the_state_is_json(run: Callable[..., Result]) -> None:
    assert json.loads(run("state", "get", "release").stdout) == HOSTILE
    assert run("state", "get", "nothing").exit_code == 3


# ---- every command ---------------------------------------------------------------------------


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    import click

    if isinstance(command, click.Group):
        for inner, each in command.commands.items():
            yield from _commands(each, f"{name} {inner}")
    else:
        yield name, command


#: What speaks a protocol of its own, which is JSON anyway.
PLAIN = {"mcp"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    import click

    for full, command in _commands(cli.get_command(click.Context(cli), name), name):
        for option in (each for each in command.params if isinstance(each, click.Option)):
            words = option.help or ""
            assert words.endswith((".", "…")), (full, option.opts)
            assert not option.multiple or "may be repeated" in words, (full, option.opts)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_json(name: str) -> None:
    import click

    root = cli.get_command(click.Context(cli), name)
    for full, command in _commands(root, name):
        options = {option for each in command.params for option in each.opts}
        assert "--json" in options or full in PLAIN, full
