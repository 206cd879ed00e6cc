"""Evidence over HTTP: large and small files come as they are, to be saved and never to be run."""

import hashlib
from io import BytesIO
from typing import Any

import httpx2
import pytest

from detent.kernel import commands as c
from detent.operations.evidence import attach_evidence, checked_name, safe_type
from detent.operations.registry import OWNER, Scope
from detent.store.blobs import MAX_BLOB_BYTES
from tests.gateway.installation import Installation

BYTES = "application/octet-stream"


@pytest.fixture(scope="module")
def run_id(gateway: Installation, owner: httpx2.Client) -> str:
    """A run that has ended."""
    made = str(owner.post("/api/tasks", json={"intent": "runQA", "run": True}).json()["id"])
    gateway.complete(made)
    return f"{made}-j1-r1"


def put(client: httpx2.Client, run_id: str, name: str, data: bytes, kind: str = BYTES) -> Any:
    url = f"/api/runs/{run_id}/evidence/{name}"
    return client.put(url, content=data, headers={"Content-Type": kind})


def test_a_file_comes_back_as_a_download(owner: httpx2.Client, run_id: str) -> None:
    data = bytes(range(256)) * 20_000
    added = put(owner, run_id, "deep/test-results.bin", data)
    assert added.status_code == 201
    digest = hashlib.sha256(data).hexdigest()
    assert (added.json()["kind"], added.json()["sha256"]) == ("test_result", digest)
    got = owner.get(f"/api/runs/{run_id}/evidence/deep/test-results.bin")
    assert got.content == data
    assert got.headers["content-disposition"] == "attachment; filename*=UTF-8''test-results.bin"
    assert got.headers["content-length"] == str(len(data))
    assert got.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in got.headers["content-security-policy"]
    listed = owner.get(f"/api/runs/{run_id}/evidence").json()["items"]
    assert [row["file"] for row in listed if row["sha256"] == digest] == ["deep/test-results.bin"]


def test_an_empty_file_is_a_file(owner: httpx2.Client, run_id: str) -> None:
    assert put(owner, run_id, "empty.log", b"").status_code == 201
    got = owner.get(f"/api/runs/{run_id}/evidence/empty.log")
    assert (got.status_code, got.content) == (200, b"")


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("page.html", "text/plain; charset=utf-8"),
        ("picture.svg", BYTES),
        ("script.js", "text/plain; charset=utf-8"),
        ("picture.png", "image/png"),
        ("data.json", "application/json"),
        ("what.ever", BYTES),
    ],
)
def test_no_type_is_sent_that_a_browser_would_execute(
    owner: httpx2.Client, run_id: str, name: str, media_type: str
) -> None:
    put(owner, run_id, name, b"<script>alert(1)</script>")
    got = owner.get(f"/api/runs/{run_id}/evidence/{name}")
    assert got.headers["content-type"] == media_type


def test_a_name_cannot_break_out_of_its_header(gateway: Installation, run_id: str) -> None:
    name = 'a";\u202egnp.exe'
    attach_evidence(gateway.core, OWNER, run_id, name, BytesIO(b"x"))
    got = gateway.client().get(f"/api/runs/{run_id}/evidence/{name}")
    assert got.content == b"x"
    disposition = got.headers["content-disposition"]
    assert disposition == "attachment; filename*=UTF-8''a%22%3B%E2%80%AEgnp.exe"


@pytest.mark.parametrize("name", ["../secret", "a/../b", ".hidden", "a/.b", "a//b", "a\x1bb", ""])
def test_names_that_lead_elsewhere_are_refused(gateway: Installation, name: str) -> None:
    from detent.errors import Invalid

    with pytest.raises(Invalid):
        checked_name(name)


def test_what_is_not_there_is_not_found(
    gateway: Installation, owner: httpx2.Client, run_id: str
) -> None:
    for path in (f"{run_id}/evidence/nothing.txt", f"{run_id}/evidence/../../x", "no/evidence/x"):
        assert owner.get(f"/api/runs/{path}").status_code == 404
    job_id = run_id.rpartition("-")[0]
    lost = c.AttachEvidence(job_id, run_id, "lost.log", "log", "ab" * 32, 3)
    gateway.report(lost)
    answer = owner.get(f"/api/runs/{run_id}/evidence/lost.log")
    assert answer.status_code == 404
    assert "has been deleted" in answer.json()["detail"]


def test_a_worker_is_not_interfered_with(gateway: Installation, owner: httpx2.Client) -> None:
    task = owner.post("/api/tasks", json={"intent": "runQA", "run": True}).json()["id"]
    claimed = gateway.claim(task)
    run = str(claimed.job.run_id)
    refused = put(owner, run, "a.log", b"x")
    assert (refused.status_code, refused.json()["code"]) == (409, "held_by_worker")
    gateway.report(c.CompleteRun(claimed.grant, run, None, 0))
    assert put(owner, run, "a.log", b"x").status_code == 201
    again = put(owner, run, "a.log", b"y")
    assert (again.status_code, again.json()["code"]) == (409, "evidence_exists")
    assert owner.get(f"/api/runs/{run}/evidence/a.log").content == b"x"


def test_a_run_by_hand_takes_evidence_while_it_runs(owner: httpx2.Client) -> None:
    made = owner.post("/api/jobs", json={"intent": "runQA", "priority": "P0"}).json()["id"]
    run = owner.post(f"/api/jobs/{made}/runs", json={}).json()["id"]
    assert put(owner, run, "a.log", b"x").status_code == 201
    assert owner.post(f"/api/runs/{run}/end", json={"exit_code": 0}).status_code == 200


def test_uploads_have_a_limit_and_one_type(owner: httpx2.Client, run_id: str) -> None:
    wrong = put(owner, run_id, "b.log", b"{}", "application/json")
    assert wrong.status_code == 415
    large = put(owner, run_id, "b.log", bytes(MAX_BLOB_BYTES + 1))
    assert (large.status_code, large.json()["code"]) == (413, "too_large")
    assert owner.get(f"/api/runs/{run_id}/evidence/b.log").status_code == 404


def test_a_reader_cannot_add(gateway: Installation, run_id: str) -> None:
    reader = gateway.client(gateway.token_for(Scope.READ))
    assert put(reader, run_id, "c.log", b"x").status_code == 403


def test_types_are_read_without_their_parameters() -> None:
    assert safe_type("text/HTML; charset=utf-8") == "text/plain"
    assert safe_type("image/PNG") == "image/png"
    assert safe_type("") == BYTES
