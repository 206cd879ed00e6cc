"""What `detent up` prints: examples that work as they are printed."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from detent import service
from detent.cli import up
from detent.errors import Unavailable
from tests.worker.waiting import installation


def example(*intents: str) -> str:
    core = SimpleNamespace(intents=dict.fromkeys(intents))
    return up.example(SimpleNamespace(url="http://127.0.0.1:1", core=core), Path("token"))


def test_the_example_submits_only_what_needs_no_payload_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["detent"])
    assert '"intent":"runQA"' in example("fixBug", "runQA")
    expected = "Try:   detent intents    # the task types that you can submit"
    assert example("fixBug", "hello").strip() == expected


def test_the_printed_command_is_found_by_the_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "bin" / "detent"
    own.parent.mkdir()
    own.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", os.defpath)
    assert up.own_command() == str(own)
    monkeypatch.setenv("PATH", str(own.parent))
    assert up.own_command() == "detent"


APP = """\
from detent import App

app = App()


@app.intent("greet")
def greet() -> str:
    return "hello"
"""


def test_the_gateway_is_announced_when_the_intents_of_the_worker_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greeting_app.py").write_text(APP, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    known: list[set[str]] = []
    with installation(tmp_path / "data", gateway_port=0) as core:

        def announce(*_: object) -> None:
            with core.store.read() as view:
                known.append(set(view.rows("intents")))

        monkeypatch.setattr(service, "announce", announce)
        made = service.Service(core, keeper=False, apps=["greeting_app:app"])
        made.start()
        made.stop()
    assert [("greet" in each) for each in known] == [True]


def test_all_components_stop_although_the_store_is_unavailable(tmp_path: Path) -> None:
    stopped: list[str] = []

    def unavailable() -> None:
        raise Unavailable("The store is unavailable.", retry_after_s=1)

    with installation(tmp_path / "data") as core:
        made = service.Service(core, gateway=False, worker=False, keeper=False)
        keeper = SimpleNamespace(start=lambda: None, stop=lambda: stopped.append("keeper"))
        made._start(keeper)
        made._start(SimpleNamespace(start=lambda: None, stop=unavailable))
        made.stop()
    assert stopped == ["keeper"]
