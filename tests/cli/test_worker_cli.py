"""`detent worker --once` and `--reload`, as processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from detent.cli import reload
from tests.operations.installation import local_installation

Run = Callable[..., Result]
APP = """
from detent import App

app = App()
VERSION = {version!r}

@app.intent("greet")
def greet(name="you"):
    return f"{{VERSION}} {{name}}"

@app.intent("nest")
def nest(run):
    return run.step("once", lambda: "done")
"""


def write_app(directory: Path, version: str) -> Path:
    return write_source(directory, APP.format(version=version))


def write_source(directory: Path, text: str) -> Path:
    """The file has its whole text as soon as it has changed: `--reload` reads it at any time."""
    file, draft = directory / "greeting.py", directory / "greeting.draft"
    draft.write_text(text)
    return draft.replace(file)


def worker(directory: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "detent", "worker", "--app", "greeting:app", *options]


def results(run: Run) -> list[object]:
    items = json.loads(run("jobs", "--json", "--sort", "created_at").stdout)["items"]
    return [row["result"] for row in items]


def wait_for(condition: Callable[[], object], what: str, deadline_s: float = 90) -> None:
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, what
        time.sleep(0.05)


# ---- stopping --------------------------------------------------------------------------------


def test_a_stopping_worker_prints_how_long_its_jobs_have(data: Path, tmp_path: Path) -> None:
    write_app(tmp_path, "v1")
    environment = {**os.environ, "DETENT_WORKER_GRACE_MS": "2500"}
    with subprocess.Popen(
        worker(tmp_path),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while "Ready" not in process.stdout.readline():
            assert process.poll() is None
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Stopping. Running jobs have 2.5 s to finish. Press Ctrl-C again to exit" in errors


# ---- once ------------------------------------------------------------------------------------


def test_once_does_what_is_there_and_ends(run: Run, data: Path, tmp_path: Path) -> None:
    write_app(tmp_path, "v1")
    with local_installation(data) as place:
        place.put("intents", {"greet": {}, "nest": {}, "later": {}})
        for name in ("a", "b"):
            place.call("submit_job", intent="greet", payload={"name": name})
        place.call("submit_job", intent="nest")
        place.call("submit_job", intent="later")
    ended = subprocess.run(
        worker(tmp_path, "--once"), cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    # What no handler is for stays where it is, and is not waited for.
    assert results(run) == ["v1 a", "v1 b", "done", None]
    assert json.loads(run("workers", "--json").stdout)["items"] == []


def test_once_does_not_wait_for_what_is_paused(run: Run, data: Path, tmp_path: Path) -> None:
    write_app(tmp_path, "v1")
    with local_installation(data) as place:
        place.put("intents", {"greet": {}})
        place.call("submit_job", intent="greet")
        place.call("pause", intent="greet")
    ended = subprocess.run(
        worker(tmp_path, "--once", "--json"), cwd=tmp_path, capture_output=True, timeout=60
    )
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["url"] is None
    assert results(run) == [None]


def test_once_and_reload_exclude_each_other(run: Run) -> None:
    assert (
        "--once and --reload cannot be combined"
        in run("worker", "--once", "--reload", code=2).stderr
    )


# ---- reload ----------------------------------------------------------------------------------


def test_a_changed_file_is_taken_over_and_a_broken_one_is_not(
    run: Run, data: Path, tmp_path: Path
) -> None:
    write_app(tmp_path, "v1")
    log = tmp_path / "log"

    def printed(text: str) -> bool:
        return text in log.read_text()

    def greeting() -> object:
        made = json.loads(run("submit", "greet", "--json").stdout)["id"]
        wait_for(lambda: _ended(run, made), "the job was not done")
        return json.loads(run("jobs", "--task", made, "--json").stdout)["items"][0]["result"]

    with (
        log.open("w") as stream,
        subprocess.Popen(
            worker(tmp_path, "--reload"), cwd=tmp_path, stdout=stream, stderr=stream
        ) as process,
    ):
        try:
            wait_for(lambda: printed("Ready"), "it did not start")
            assert greeting() == "v1 you"
            write_source(tmp_path, "def broken(:\n")
            wait_for(lambda: printed("cannot be compiled"), "a broken file was not noticed")
            assert greeting() == "v1 you"
            write_app(tmp_path, "v2")
            wait_for(lambda: log.read_text().count("Ready") == 2, "it did not restart")
            assert greeting() == "v2 you"
        finally:
            process.terminate()
            process.wait(90)


def _ended(run: Run, task_id: str) -> bool:
    task = json.loads(run("show", task_id, "--json").stdout)["task"]
    return task["state"] in ("ready", "completed", "failed")


def test_an_app_that_cannot_be_imported_waits_to_be_put_right(
    run: Run, data: Path, tmp_path: Path
) -> None:
    write_source(tmp_path, "import nothing_of_that_name\n")
    log = tmp_path / "log"
    with (
        log.open("w") as stream,
        subprocess.Popen(
            worker(tmp_path, "--reload"), cwd=tmp_path, stdout=stream, stderr=stream
        ) as process,
    ):
        try:
            wait_for(lambda: "cannot be imported" in log.read_text(), "nothing was reported")
            write_app(tmp_path, "v1")
            wait_for(lambda: "Ready" in log.read_text(), "it did not start")
        finally:
            process.terminate()
            process.wait(90)
    assert "Traceback" not in log.read_text()


def test_only_files_that_have_changed_count(tmp_path: Path) -> None:
    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_text("1")
    before = reload.modified_times([first, second])
    assert before.keys() == {first}
    second.write_text("2")
    os.utime(second, ns=(50, 50))
    now = reload.modified_times([first, second])
    assert reload.changed_files(before, now, began_ns=60) == []
    assert reload.changed_files(before, now, began_ns=40) == [second]
    os.utime(first, ns=(1, 1))
    assert reload.changed_files(before, reload.modified_times([first, second]), began_ns=60) == [
        first
    ]


def test_installed_modules_and_detent_itself_are_not_watched() -> None:
    watched = reload.own_sources()
    assert Path(__file__).resolve() in watched
    assert Path(reload.__file__).resolve() not in watched
    assert Path(json.__file__).resolve() not in watched
    assert Path(pytest.__file__).resolve() not in watched


def test_sources_below_leave_hidden_places_alone(tmp_path: Path) -> None:
    for place in ("app.py", "package/inner.py", ".venv/lib.py", "__pycache__/x.py", "notes.txt"):
        path = tmp_path / place
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    found = {str(path.relative_to(tmp_path)) for path in reload.sources_in(tmp_path)}
    assert found == {"app.py", "package/inner.py"}


@pytest.mark.parametrize("reference", ["no_such_module:app", "os:path"])
def test_a_reference_that_is_no_app_says_how_to_name_one(run: Run, reference: str) -> None:
    refused = run("worker", "--app", reference, code=7)
    assert "Name an App as package.module:name" in refused.stderr
