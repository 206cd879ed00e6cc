"""Commands as real processes: output, exit codes, limits, whole groups ended, orphans found."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed
from detent.app.handlers import checked_argv
from detent.app.run_interface import Stop
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.worker.runners.command_runner import filled
from detent.worker.runners.follower import Follower
from detent.worker.runners.process_group import Group, Records, start_ticks
from detent.worker.worker import Worker
from tests.worker.waiting import DEADLINE_S, installation, let_pass, until, working

ONCE = {"retry": {"retries": 0, "classes": {"timeout": {"retries": 0}}}}


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    with installation(tmp_path, worker_grace_ms=300, worker_heartbeat_ms=200) as made:
        yield made


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", code, *arguments]


def output_of(core: Core, run_id: str) -> str:
    return (core.settings.data_dir / "runs" / run_id / "output.log").read_text()


def is_gone(pid: int) -> bool:
    return start_ticks(pid) is None


# ---- argv ----------------------------------------------------------------------------------


def test_fields_of_the_payload_stand_as_whole_elements() -> None:
    argv = checked_argv(["git", "clone", "{payload.repo.url}", "--depth", "{payload.depth}"])
    payload = {"repo": {"url": "https://x"}, "depth": 3, "more": True}
    assert filled(argv, payload) == ["git", "clone", "https://x", "--depth", "3"]
    assert filled(["x", "{payload.more}"], payload) == ["x", "true"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ("pytest -q", "a list of strings"),
        ([], "a list of strings"),
        (["pytest", 3], "a list of strings"),
        ([""], "a list of strings"),
        (["{payload.program}"], "a payload cannot name"),
        (["sh", "-c", "echo {payload.name}"], "must be a whole element of the command"),
        (["echo", "--name={payload.name}"], "must be a whole element of the command"),
        (["echo", "{payload}"], "must be a whole element of the command"),
    ],
)
def test_a_command_that_is_none_is_refused_at_import(argv: Any, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        App().command("work", argv)


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({}, "payload.a is missing: the command requires it"),
        (None, "payload.a is missing: the command requires it"),
        ({"a": ["x"]}, "payload.a must be a string or a number"),
        ({"a": "--upload-pack=evil"}, "could be read as an option"),
        ({"a": "-1"}, "could be read as an option"),
        ({"a": "x\0y"}, "NUL"),
    ],
)
def test_values_that_could_do_harm_are_refused(payload: Any, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        filled(["git", "{payload.a}"], payload)


def test_behind_two_dashes_a_value_may_begin_with_one() -> None:
    assert filled(["grep", "--", "{payload.a}"], {"a": "-v"}) == ["grep", "--", "-v"]
    with pytest.raises(Invalid, match="could be read as an option"):
        filled(["grep", "{payload.a}", "{payload.b}"], {"a": "--", "b": "-v"})


# ---- following -----------------------------------------------------------------------------


def test_a_late_stop_writes_to_no_other_file(tmp_path: Path) -> None:
    """A thread that stops a run may have read the callback before the program has ended."""
    callbacks: list[Any] = []
    run: Any = SimpleNamespace(on_stop=callbacks.append)
    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        program: Any = SimpleNamespace(process=process)
        with Follower(program, Group("r1"), run) as following:
            numbers = {following.exit, following.wake_read, following.wake_write}
    opened = {os.open(tmp_path / f"{n}", os.O_RDWR | os.O_CREAT) for n in range(10)}
    assert numbers <= opened
    callbacks[0](Stop.CANCEL)
    assert not any(os.fstat(each).st_size for each in opened)
    for each in opened:
        os.close(each)


# ---- running -------------------------------------------------------------------------------

REPORTER = """
import json, os, sys
print("to stdout"); print("to stderr", file=sys.stderr)
json.dump({"argument": sys.argv[1], "payload": json.load(open(os.environ["DETENT_PAYLOAD_FILE"])),
  "cwd": os.getcwd(), "names": sorted(n for n in os.environ if n != "LC_CTYPE"),
  "session": os.getsid(0) == os.getpid(), "stdin": sys.stdin.read()},
  open(os.environ["DETENT_RESULT_FILE"], "w"))
open(os.path.join(os.environ["DETENT_EVIDENCE_DIR"], "AUDIT-REPORT.md"), "w").write("fine")
os.symlink("/etc/passwd", os.path.join(os.environ["DETENT_EVIDENCE_DIR"], "stolen.txt"))
"""


def test_a_command_runs_apart_and_leaves_output_result_and_evidence(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_TOKEN", "secret")
    monkeypatch.setenv("PATH", os.environ["PATH"])
    app = App()
    app.command("report", python(REPORTER, "{payload.name}"), environment=["PATH", "HOME"])
    with working(core, app):
        handle = app.submit("report", {"name": "a b; rm -rf /"})
        result = handle.result(timeout=DEADLINE_S)
    run_id = f"{handle.job_id}-r1"
    assert result["argument"] == "a b; rm -rf /"
    assert result["payload"] == {"name": "a b; rm -rf /"}
    assert result["cwd"].endswith(f"runs/{run_id}/work")
    assert result["session"]
    assert result["stdin"] == ""
    assert "DETENT_TOKEN" not in result["names"]
    assert {"PATH", "DETENT_RUN_ID", "DETENT_FENCE"} <= set(result["names"])
    assert sorted(output_of(core, run_id).split("\n")) == ["", "to stderr", "to stdout"]
    with core.store.read() as view:
        events = view.events(0, 100, stream=handle.job_id)
    evidence = [json.loads(e.data) for e in events if e.name == "evidence_added"]
    assert [(each["file"], each["kind"]) for each in evidence] == [
        ("AUDIT-REPORT.md", "audit_report")
    ]


LOOKING = """
import json, os, sys
def is_open(descriptor):
    try: os.fstat(descriptor); return True
    except OSError: return False
json.dump({"names": sorted(n for n in os.environ if n != "LC_CTYPE"),
  "open": is_open(int(sys.argv[1])), "group": os.getpgid(0) == os.getpid()},
  open(os.environ["DETENT_RESULT_FILE"], "w"))
"""
VARIABLES = "RUN_ID JOB_ID TASK_ID FENCE ATTEMPT RUN_DIR EVIDENCE_DIR PAYLOAD_FILE RESULT_FILE"


def test_a_command_gets_nothing_of_the_workers_environment_by_default(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DETENT_STORE_URL", "DETENT_TOKEN", "PGPASSWORD", "ANTHROPIC_API_KEY", "HOME"):
        monkeypatch.setenv(name, "not-for-everybody")
    app = App()
    app.command("look", python(LOOKING, "{payload.descriptor}"))
    inherited, other = os.pipe()
    os.set_inheritable(inherited, True)
    try:
        with working(core, app):
            found = app.submit("look", {"descriptor": inherited}).result(timeout=DEADLINE_S)
    finally:
        os.close(inherited)
        os.close(other)
    given = {
        f"DETENT_{name}" for name in (*VARIABLES.split(), "PROJECT", "PROJECT_DIR", "RESOURCE")
    }
    names = set(found["names"])
    assert given | {"HOME", "PATH"} <= names
    assert names <= given | {"HOME", "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR"}
    assert (found["open"], found["group"]) == (False, True)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import sys; print('no disk'); sys.exit(3)", "exit code 3: no disk"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
    ],
)
def test_an_exit_code_other_than_zero_is_a_failure(core: Core, code: str, text: str) -> None:
    app = App()
    app.command("work", python(code))
    with working(core, app), pytest.raises(JobFailed, match=text):
        app.submit("work", options=ONCE).result(timeout=DEADLINE_S)
    with core.store.read() as view:
        failed = next(e for e in view.events(0, 100) if e.name == "run_failed")
    assert json.loads(failed.data)["exit_code"] in (3, -9)


def test_output_is_capped(tmp_path: Path) -> None:
    app = App()
    app.command("talk", python("print('first'); print('x' * 5000); print('y' * 5000)"))
    with installation(tmp_path, worker_output_limit=6_000) as core:
        with working(core, app):
            handle = app.submit("talk")
            run_id = f"{handle.job_id}-r1"
            handle.result(timeout=DEADLINE_S)
        output = output_of(core, run_id)
    assert output.startswith("first\n")
    assert len(output) < 6_200
    assert output.endswith("[the output was cut here: it passed its limit, worker.output_limit]\n")


def test_output_is_there_while_the_command_runs(core: Core) -> None:
    app = App()
    wait = (
        "import os, time\nprint('first', flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)"
    )
    app.command("talk", python(wait))
    with working(core, app):
        handle = app.submit("talk")
        log = core.settings.data_dir / "runs" / f"{handle.job_id}-r1" / "output.log"
        until(lambda: log.exists() and log.read_text() == "first\n", "the first line")
        (log.parent / "work" / "go").touch()
        handle.result(timeout=DEADLINE_S)


# ---- ending a whole group ------------------------------------------------------------------

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", '''
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal,time; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"
away = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
print("pids", os.getpid(), away.pid, flush=True)
time.sleep(3600)
'''])
print("main", os.getpid(), flush=True)
while True:
    time.sleep(0.05)
    try: print("still here", flush=True)
    except OSError: pass  # no reader is left any more: that is no reason to go
"""


def pids_of(core: Core, run_id: str) -> list[int]:
    """The command, its child, and the grandchild in a session of its own, once all have started."""
    try:
        words = output_of(core, run_id).split()
    except FileNotFoundError:
        return []
    if "main" not in words or "pids" not in words or words.index("pids") + 2 >= len(words):
        return []
    at = words.index("pids")
    return [int(words[words.index("main") + 1]), int(words[at + 1]), int(words[at + 2])]


def test_a_cancel_ends_a_group_that_ignores_sigterm_with_its_grandchildren(core: Core) -> None:
    app = App()
    app.command("stubborn", python(STUBBORN))
    with working(core, app):
        handle = app.submit("stubborn")
        pids = until(lambda: pids_of(core, f"{handle.job_id}-r1"), "three processes")
        handle.cancel()
        until(lambda: handle.state() == "cancelled", "the cancel")
        assert all(is_gone(pid) for pid in pids)
    assert not list((core.settings.data_dir / "processes").iterdir())


def test_a_command_over_its_time_limit_is_ended(core: Core) -> None:
    app = App()
    app.command("stubborn", python(STUBBORN), timeout_s=3_600)
    with working(core, app) as worker:
        handle = app.submit("stubborn", options=ONCE)
        pids = until(lambda: pids_of(core, f"{handle.job_id}-r1"), "three processes")
        let_pass(worker, 3_600)
        with pytest.raises(JobFailed, match=r"ran longer than 3600\.0 s"):
            handle.result(timeout=DEADLINE_S)
        assert all(is_gone(pid) for pid in pids)


def test_a_silent_command_is_ended_as_idle(core: Core) -> None:
    app = App()
    app.command(
        "silent",
        python("print('hi', flush=True); import time; time.sleep(3600)"),
        idle_timeout_s=0.5,
    )
    with working(core, app), pytest.raises(JobFailed, match=r"gave no sign of life for 0\.5 s"):
        app.submit("silent", options=ONCE).result(timeout=DEADLINE_S)


def test_what_a_command_leaves_running_is_ended_with_it(core: Core) -> None:
    app = App()
    leave = (
        "import subprocess; p = subprocess.Popen(['sleep', '3600'], start_new_session=True); "
        "print(p.pid)"
    )
    app.command("leaver", python(leave))
    with working(core, app):
        handle = app.submit("leaver")
        handle.result(timeout=DEADLINE_S)
    assert is_gone(int(output_of(core, f"{handle.job_id}-r1")))


def test_a_stopping_worker_ends_commands_and_hands_them_back(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = App()
    app.command("stubborn", python(STUBBORN))
    worker = Worker(core, app)
    worker.start()
    handle = app.submit("stubborn")
    pids = until(lambda: pids_of(core, f"{handle.job_id}-r1"), "three processes")
    monkeypatch.setattr("detent.worker.worker.ENDING_S", DEADLINE_S)
    worker.stop(grace_s=0)
    assert handle.state() == "queued"
    assert all(is_gone(pid) for pid in pids)


# ---- orphans -------------------------------------------------------------------------------


def test_orphans_of_a_killed_worker_are_ended_by_the_next_one(core: Core, tmp_path: Path) -> None:
    app = App()
    app.command("stubborn", python(STUBBORN))
    program = (
        "import sys, time; from pathlib import Path\n"
        "from tests.worker.waiting import installation\n"
        "from tests.worker.test_command import *\n"
        "with installation(Path(sys.argv[1])) as core:\n"
        "    app = App(); app.command('stubborn', python(STUBBORN))\n"
        "    Worker(core, app, name='first').start(); time.sleep(3600)\n"
    )
    first = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)])
    handle = app.bind(core).submit("stubborn")
    pids = until(lambda: pids_of(core, f"{handle.job_id}-r1"), "three processes")
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not any(is_gone(pid) for pid in pids)
    Records(core.settings.data_dir).end_orphans(0.1)
    assert all(is_gone(pid) for pid in pids)
    assert not list((core.settings.data_dir / "processes").iterdir())


def test_the_processes_of_a_worker_that_lives_are_left_alone(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    try:
        group = Group("r1")
        group.leads(child.pid)
        records = Records(tmp_path)
        records.write(group)
        assert records.end_orphans(0.1) == []
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_reused_process_id_harms_no_other_process(tmp_path: Path) -> None:
    """The record's process is gone, and its id means another one now, with another start time."""
    stranger = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    try:
        ticks = until(lambda: start_ticks(stranger.pid))
        records = Records(tmp_path)
        records.write(Group("r1", stranger.pid, ticks - 1))
        path = tmp_path / "processes" / "r1.json"
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "worker_started": record["worker_started"] - 1}))
        assert records.end_orphans(0.1) == []
        assert stranger.poll() is None
        assert not path.exists()
    finally:
        stranger.kill()
        stranger.wait()


def test_records_of_another_machine_are_left_alone(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(Group("r1", 1, 1))
    path = tmp_path / "processes" / "r1.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "machine": ["elsewhere", "pid:[1]"], "worker": 0}))
    assert records.end_orphans(0.1) == []
    assert path.exists()
    path.write_text(json.dumps({**record, "boot": "an earlier one"}))
    assert records.end_orphans(0.1) == []
    assert not path.exists()


def test_commands_are_steps_of_plans_like_any_other_intent(core: Core) -> None:
    app = App()
    write = "import json,os; json.dump({'n': 20}, open(os.environ['DETENT_RESULT_FILE'],'w'))"
    app.command("make", python(write))

    @app.intent("use")
    def use(make: dict[str, int]) -> int:
        return make["n"] + 1

    app.plan("both", [{"name": "make"}, {"name": "use", "needs": ["make"]}])
    with working(core, app):
        assert app.submit("both").result(timeout=DEADLINE_S) == {"make": {"n": 20}, "use": 21}


def test_a_lost_lease_ends_the_processes(core: Core) -> None:
    app = App()
    app.command("stubborn", python(STUBBORN))
    with working(core, app) as worker:
        handle = app.submit("stubborn")
        pids = until(lambda: pids_of(core, f"{handle.job_id}-r1"), "three processes")
        worker.claimer.stop()
        core.engine.do(c.ReclaimJob(handle.job_id, 1), c.Actor("clock"))
        until(lambda: all(is_gone(pid) for pid in pids), "the processes' end")
        assert handle.state() == "queued"
