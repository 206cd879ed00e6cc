"""The story of a real ACP agent: it asks for permission, writes, is rejected, and continues.

`python -m tests.agent_clis.acp_story NAME` runs it where only loopback is reachable.
"""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tests.agent_clis.acp_profile import AGENTS, AcpAgent
from tests.agent_clis.case_run import AFTER, BUG, FILE, CaseRun, wait_for
from tests.agent_clis.cases import AGAIN, DONE
from tests.agent_clis.cli_profile import Cli
from verification.model_apis.model_script import Say, Step
from verification.model_apis.model_server import ModelServer, serving


def story(agent: AcpAgent, case: CaseRun) -> None:
    def steps(work: Path) -> Iterator[Step]:
        yield Step(agent.write(work / FILE, AFTER), sees=(f"Fix this: {BUG}",))
        yield Step(Say(DONE))
        yield Step(Say(AGAIN), sees=("Say why.",))

    case.start(steps)
    question: dict[str, Any] = wait_for(lambda: _asked(case), "a request for permission")
    assert FILE in question["detail"]["text"], question
    options = question["detail"]["options"]
    allowed = next(each for each in options if each.startswith(("Allow", "Yes")))
    assert case.detent.run("answer", case.task_id, allowed).returncode == 0
    task = case.rests("ready")
    assert (case.work / FILE).read_text() == AFTER
    items = case.transcript()
    assert {"session", "message", "note"} <= {each["kind"] for each in items}, items
    assert any(FILE in f"{each.get('path')}{each['text']}" for each in items), items

    assert case.detent.run("reject", case.task_id, "--comment", "Say why.", "--run").returncode == 0
    wait_for(lambda: len(case.runs()) == 2, "a second run")
    assert case.rests("ready")["session_id"] == task["session_id"]
    assert {each["session_id"] for each in case.runs()} == {task["session_id"]}
    assert case.script.is_over
    result = case.detent.get(f"/api/jobs/{case.runs()[-1]['job_id']}")["result"]
    assert result["text"] == AGAIN, result


def _asked(case: CaseRun) -> dict[str, Any] | None:
    """The open request; a run that has ended is an error."""
    assert not [each for each in case.runs() if each["ended_at"]], case.errors()
    assert not case.script.problems, case.script.problems
    found: list[dict[str, Any]] = case.detent.get("/api/inbox")["questions"]
    return found[0] if found else None


def main(name: str) -> None:
    agent = next(each for each in AGENTS if each.name == name)
    with serving(ModelServer()) as server, tempfile.TemporaryDirectory() as directory:
        case = CaseRun(cast(Cli, agent), Path(directory), server)
        try:
            story(agent, case)
            assert not case.script.problems, case.script.problems
        except BaseException:
            sys.stderr.write((case.detent.home / "up.log").read_text())
            for request in case.script.requests:
                sys.stderr.write(f"{request.path} {request.body.get('model')}\n")
            for log in case.detent.data.glob("runs/*/output.log"):
                sys.stderr.write(log.read_text("utf-8", "replace"))
            raise
        finally:
            case.stop()


if __name__ == "__main__":
    main(sys.argv[1])
