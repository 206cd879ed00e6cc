"""`detent evidence`: what runs left behind is listed, saved safely, and added to by hand."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.evidence import attach_evidence
from detent.operations.manual_runs import begin_run
from detent.operations.registry import OWNER
from detent.service import open_core
from detent.settings_loader import load
from tests.cli.conftest import Run

RUN = "t-j1-r1"
PERSON = c.Actor("person")


@pytest.fixture
def core(data: Path) -> Iterator[Core]:
    """An installation with a task that has ended, and with evidence of its run."""
    with open_core(load(flags={"gateway_port": 0})) as made:
        made.engine.do(c.SubmitTask("t", "p", "board", "runQA", "cli", queue=True), PERSON)
        begin_run(made, OWNER, job_id="t-j1")
        attach_evidence(made, OWNER, RUN, "QA-DECISION.md", BytesIO(b"pass"))
        attach_evidence(made, OWNER, RUN, "shots/one.png", BytesIO(b"\x89PNG"))
        yield made


@pytest.mark.usefixtures("ready")
def test_evidence_of_a_task_and_of_a_run_is_listed(run: Run) -> None:
    for named in ("t", RUN):
        found = json.loads(run("evidence", named, "--json").stdout)["items"]
        assert [(row["file"], row["kind"]) for row in found] == [
            ("QA-DECISION.md", "qa_report"),
            ("shots/one.png", "screenshot"),
        ]
    assert "screenshot" in run("evidence", "list", "t").stdout
    assert "no run or task 'unknown'" in run("evidence", "unknown", code=3).stderr


@pytest.mark.usefixtures("ready")
def test_evidence_is_saved_and_nothing_is_overwritten(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "saved"
    output = run("evidence", "t", "--save", str(to)).stdout.split()
    assert output == [str(to / RUN / "QA-DECISION.md"), str(to / RUN / "shots/one.png")]
    assert (to / RUN / "shots/one.png").read_bytes() == b"\x89PNG"
    (to / RUN / "QA-DECISION.md").write_text("mine")
    assert (
        "exists already and was not overwritten"
        in run("evidence", "t", "--save", str(to), code=1).stderr
    )
    assert (to / RUN / "QA-DECISION.md").read_text() == "mine"


def test_no_link_leads_a_saved_file_elsewhere(run: Run, core: Core, tmp_path: Path) -> None:
    outside, to = tmp_path / "outside", tmp_path / "saved"
    outside.mkdir()
    to.mkdir()
    (to / RUN).symlink_to(outside)
    run("evidence", "t", "--save", str(to), code=1)
    assert list(outside.iterdir()) == []
    blob = core.store.blobs.put(BytesIO(b"sneaky"))
    sneaky = c.AddEvidence(_grant(core), RUN, "../../out", "log", *blob)
    core.engine.do(sneaky, PERSON)
    refused = run("evidence", RUN, "--save", str(tmp_path / "other"), code=1)
    assert "is no path below a directory" in refused.stderr
    assert not (tmp_path / "out").exists()


def _grant(core: Core) -> c.Grant:
    job, _ = core.job(OWNER, "t-j1")
    return c.Grant(job.id, job.fence, str(job.nonce))


def test_bytes_that_differ_from_the_history_are_not_saved(
    run: Run, core: Core, data: Path, tmp_path: Path
) -> None:
    (blob,) = [path for path in (data / "blobs").glob("??/*") if path.read_bytes() == b"pass"]
    blob.write_bytes(b"fail")
    assert (
        "is damaged: its SHA-256 is not the recorded"
        in run("evidence", "t", "--save", "saved", code=70).stderr
    )
    assert not (tmp_path / "saved" / RUN / "QA-DECISION.md").exists()


def test_a_file_is_added_by_hand(run: Run, ready: Core, tmp_path: Path) -> None:
    file = tmp_path / "AUDIT-REPORT.md"
    file.write_text("all well")
    added = json.loads(run("evidence", "add", RUN, str(file), "--json").stdout)
    assert (added["file"], added["kind"], added["size"]) == ("AUDIT-REPORT.md", "audit_report", 8)
    assert "evidence_exists" in run("evidence", "add", RUN, str(file), code=1).stderr
    named = run("evidence", "add", RUN, str(file), "--name", "again.md").stdout
    assert "again.md" in named
    assert b"".join(ready.store.blobs.read(added["sha256"])) == b"all well"


@pytest.mark.usefixtures("ready")
def test_a_worker_that_holds_the_job_is_left_alone(run: Run, core: Core, tmp_path: Path) -> None:
    from detent.engine.claims import ClaimRequest

    core.engine.do(c.SubmitTask("u", "p", "board", "runQA", "cli", queue=True), PERSON)
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    (tmp_path / "a.log").write_text("x")
    refused = run("evidence", "add", str(claimed.job.run_id), str(tmp_path / "a.log"), code=1)
    assert "held_by_worker" in refused.stderr
