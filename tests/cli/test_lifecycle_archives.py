"""Tasks of an installed lifecycle in archives, and in another store."""

import json
from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.service import open_core
from detent.settings_loader import load
from detent.testing.audit import audit
from tests.cli.conftest import Run
from tests.operations.operations_client import OperationsClient

DELIVERY = Path(__file__).parents[1] / "lifecycles" / "documents" / "seven_states.toml"


@pytest.fixture
def built(run: Run, data: Path) -> str:
    """A task that waits for its approval, in a data directory."""
    run("lifecycle", "install", str(DELIVERY))
    with open_core(load()) as core:
        client = OperationsClient()
        client.core = core
        task_id = client.submit(intent="runQA", lifecycle="delivery")
        client.complete()
    return task_id


def test_a_task_of_it_is_exported_and_imported(
    run: Run, built: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("send", built, "task_sent_back", "--comment", "again")
    with open_core(load()) as core:
        client = OperationsClient()
        client.core = core
        client.complete()
    run("send", built, "task_approved")
    run("export", built, "task.zip")
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path / "elsewhere"))
    run("lifecycle", "install", str(DELIVERY))
    assert f"Imported {built}" in run("import", "task.zip").stdout
    shown = json.loads(run("show", built, "--json").stdout)["task"]
    assert (shown["state"], shown["lifecycle"], shown["rounds"]) == ("delivered", "delivery", 1)
    assert run("verify").exit_code == 0


def test_it_moves_to_postgresql_with_its_tasks(
    run: Run, built: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("db", "move", postgres_url)
    monkeypatch.setenv("DETENT_STORE_URL", postgres_url)
    assert run("verify").exit_code == 0
    assert "approval" in run("lifecycle", "show", "delivery").stdout
    run("send", built, "task_sent_back")
    assert "rounds" not in run("why", built).stdout
    with open_core(load()) as core:
        client = OperationsClient()
        client.core = core
        client.complete()
        assert client.why(built)["events"] == ["task_approved"]
        with pytest.raises(DetentError, match="1 round, which is its limit"):
            client.call("send_event", task_id=built, event="task_sent_back")
        client.call("send_event", task_id=built, event="task_approved")
        assert client.state(built) == "delivered"
        audit(core.store)
