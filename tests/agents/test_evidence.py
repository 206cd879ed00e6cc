"""Evidence that an intent requires: without it a run that ends well has failed, and says so."""

import sys
from typing import Any

import pytest

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.run_context import Run
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.testing.harness import Harness
from tests.agents.scene import Scene
from tests.worker.waiting import done, error_of, until

ONCE: dict[str, Any] = {"retry": {"retries": 0}}
NEEDS: dict[str, Any] = {"requires_evidence": ["qa_report", "log"]}


def test_an_agent_without_its_evidence_has_failed(s: Scene) -> None:
    s.script([{"evidence": {"run.log": "ran"}}])
    s.intent(**NEEDS)
    s.submit()
    with s.working():
        s.rests("failed")
    assert s.run()["error"] == (
        "the run succeeded, but left no evidence of type qa_report, which fix requires; "
        "files with these names have the type: qa-decision.md"
    )


def test_evidence_from_before_a_question_counts(s: Scene) -> None:
    s.script(
        [{"evidence": {"QA-DECISION.md": "PASS"}}, {"ask": {"text": "Sure?"}}],
        [{"evidence": {"run.log": "ran"}}],
    )
    s.intent(**NEEDS)
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        s.do(c.AnswerTask(task_id, "yes"))
        s.rests("ready")
    assert s.evidence() == {
        "QA-DECISION.md": "qa_report",
        "question.json": "artifact",
        "run.log": "log",
    }


def test_functions_need_it_too() -> None:
    app = App()

    @app.intent("plain", requires_evidence=["log"], **ONCE)
    def plain(run: Run, name: str) -> str:
        run.evidence(name, "words")
        return "done"

    @app.intent("awaited", requires_evidence=["log"], **ONCE)
    async def awaited(run: AsyncRun, name: str) -> str:
        await run.evidence(name, "words")
        return "done"

    h = Harness(app)
    good = [h.submit("plain", {"name": "a.log"}), h.submit("awaited", {"name": "a.log"})]
    bad = [h.submit("plain", {"name": "a.txt"}), h.submit("awaited", {"name": "a.txt"})]
    h.drain()
    assert [done(each) for each in good] == ["done", "done"]
    assert all("no evidence of type log" in error_of(each) for each in bad)


def test_commands_need_it_too_and_a_submission_cannot_lower_it(s: Scene) -> None:
    app = App()
    app.command("quiet", [sys.executable, "-c", ""], requires_evidence=["test_result"], **ONCE)
    s.app = app
    with s.working():
        handle = app.submit("quiet", options={"requires_evidence": []})
        until(lambda: handle.state() == "failed", "it failed")
    assert "no evidence of type test_result" in error_of(handle)


def test_a_command_that_ran_out_of_time_keeps_its_evidence(s: Scene) -> None:
    code = (
        "import os, pathlib, time; "
        "pathlib.Path(os.environ['DETENT_EVIDENCE_DIR'], 'a.log').write_text('x'); time.sleep(600)"
    )
    app = App()
    app.command("slow", [sys.executable, "-c", code], timeout_s=2, **ONCE)
    s.app = app
    with s.working():
        s.handle = app.submit("slow", options={"retry": {"classes": {"timeout": {"retries": 0}}}})
        until(lambda: s.handle and s.handle.state() == "failed", "its time limit")
    assert s.evidence() == {"a.log": "log"}


def test_a_question_is_kept_without_its_secrets(s: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_KEY", "secret of a service")
    s.script([{"ask": {"text": "Is secret of a service right?"}}], secrets={"K": "env:SERVICE_KEY"})
    s.submit()
    with s.working():
        s.rests("blocked")
    kept = s.core.settings.data_dir / "runs" / s.run()["id"] / "evidence" / "question.json"
    assert kept.read_text() == '{"text": "Is [secret] right?"}'


@pytest.mark.parametrize("given", ["log", ["logs"], [3]])
def test_a_type_that_does_not_exist_is_refused_at_registration(given: Any) -> None:
    with pytest.raises(Invalid, match="requires_evidence must be"):
        App().command("x", ["true"], requires_evidence=given)
