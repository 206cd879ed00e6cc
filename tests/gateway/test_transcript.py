"""The transcript of a run over HTTP: pages, search, live output, and the download of the output."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from detent.engine import Claimed
from detent.kernel import commands as c
from detent.operations import run_transcript
from detent.operations.registry import Scope
from detent.operations.run_output import output_file, read_bytes
from tests.gateway.installation import Installation

TOOL = {"type": "tool_use", "tool_name": "shell", "tool_id": "t1", "parameters": {"command": "ls"}}
RESULT = {"type": "tool_result", "tool_id": "t1", "status": "success", "output": "A.py"}


def begun(gateway: Installation, owner: httpx2.Client, content: bytes) -> tuple[Claimed, Path]:
    """A run that works, with this output."""
    made = owner.post("/api/tasks", json={"intent": "runQA", "run": True}).json()
    claimed = gateway.claim(made["id"])
    file = output_file(gateway.core.settings.data_dir, str(claimed.job.run_id))
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    return claimed, file


def end(gateway: Installation, claimed: Claimed) -> None:
    gateway.report(c.CompleteRun(claimed.grant, str(claimed.job.run_id), None, 0))


def read(owner: httpx2.Client, claimed: Claimed, **query: Any) -> dict[str, Any]:
    answer = owner.get(f"/api/runs/{claimed.job.run_id}/transcript", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def pages(owner: httpx2.Client, claimed: Claimed, **query: Any) -> Iterator[dict[str, Any]]:
    after: int | None = 0
    while after is not None:
        page = read(owner, claimed, after=after, **query)
        yield page
        after = page["next"]


def test_pages_of_a_live_run_and_its_end(gateway: Installation, owner: httpx2.Client) -> None:
    claimed, file = begun(gateway, owner, json.dumps(TOOL).encode() + b"\nhalf a")
    page = read(owner, claimed)
    assert [(each["number"], each["kind"], each["tool"]) for each in page["items"]] == [
        (1, "tool_call", "shell")
    ]
    assert (page["next"], page["ended"]) == (1, False)
    assert read(owner, claimed, after=1) == {"items": [], "next": 1, "ended": False}
    with file.open("ab") as output:
        output.write(b" line\n" + json.dumps(RESULT).encode() + b"\nthe last")
    page = read(owner, claimed, after=1)
    assert [(each["kind"], each["text"]) for each in page["items"]] == [
        ("text", "half a line"),
        ("tool_result", None),
    ]
    assert page["items"][1]["tool"] == "shell"
    end(gateway, claimed)
    page = read(owner, claimed, after=3)
    assert [(each["number"], each["text"]) for each in page["items"]] == [(4, "the last")]
    assert (page["next"], page["ended"]) == (None, True)
    first = read(owner, claimed, limit=2)
    assert ([each["number"] for each in first["items"]], first["next"]) == ([1, 2], 2)


def test_search_finds_text_in_every_field(gateway: Installation, owner: httpx2.Client) -> None:
    edit = {
        "type": "tool_use",
        "tool_name": "replace",
        "tool_id": "t2",
        "parameters": {"file_path": "b.txt", "old_string": "Needle", "new_string": "pin"},
    }
    lines = [TOOL, RESULT, edit, {"type": "message", "role": "user", "content": "a NEEDLE"}]
    claimed, _ = begun(gateway, owner, b"".join(json.dumps(x).encode() + b"\n" for x in lines))
    end(gateway, claimed)
    for text, numbers in (("needle", [3, 4]), ("a.PY", [2]), ("SHELL", [1, 2]), ("b.tx", [3])):
        page = read(owner, claimed, q=text)
        assert ([each["number"] for each in page["items"]], page["next"]) == (numbers, None)
    assert read(owner, claimed, q="nowhere")["items"] == []


def test_a_search_ends_after_a_part_of_a_large_output(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_transcript, "MAX_SEARCHED_BYTES", 1_000)
    claimed, _ = begun(gateway, owner, b"hay\n" * 1_000 + b"needle\n")
    end(gateway, claimed)
    found = list(pages(owner, claimed, q="needle"))
    assert len(found) == 4
    assert [each["number"] for page in found for each in page["items"]] == [1_001]


def test_pages_of_a_large_output_read_each_part_once(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "x" * 900
    content = b"".join(b"%d %s\n" % (number, text.encode()) for number in range(6_000))
    claimed, _ = begun(gateway, owner, content)
    end(gateway, claimed)
    count = [0]
    plain = read_bytes

    def counted(*arguments: Any) -> bytes:
        data = plain(*arguments)
        count[0] += len(data)
        return data

    monkeypatch.setattr(run_transcript, "read_bytes", counted)
    assert len(read(owner, claimed, limit=50)["items"]) == 50
    assert count[0] <= run_transcript.CHUNK_BYTES
    count[0] = 0
    found = [each for page in pages(owner, claimed, limit=500) for each in page["items"]]
    assert [each["number"] for each in found] == list(range(1, 6_001))
    assert [each["text"].split()[0] for each in found] == [str(number) for number in range(6_000)]
    # Each page reads the last chunk of the page before again, and no more.
    assert count[0] < 4 * len(content)
    for after in (4_500, 5_700, 12, 3_000, 0):
        (item,) = read(owner, claimed, after=after, limit=1)["items"]
        assert item == found[after]
    count[0] = 0
    assert read(owner, claimed, after=5_999)["items"][0]["text"].startswith("5999 ")
    assert count[0] < len(content) / 2


def test_a_page_has_a_largest_size(gateway: Installation, owner: httpx2.Client) -> None:
    claimed, _ = begun(gateway, owner, b"".join(b"%d" % n * 60_000 + b"\n" for n in range(10)) * 5)
    end(gateway, claimed)
    found = list(pages(owner, claimed))
    assert [len(page["items"]) for page in found] == [18, 18, 14]


@pytest.mark.parametrize(
    ("query", "field"),
    [({"after": -1}, "after"), ({"limit": 0}, "limit"), ({"limit": 1_001}, "limit")],
)
def test_wrong_pages_are_refused(
    gateway: Installation, owner: httpx2.Client, query: dict[str, int], field: str
) -> None:
    claimed, _ = begun(gateway, owner, b"x\n")
    answer = owner.get(f"/api/runs/{claimed.job.run_id}/transcript", params=query)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    end(gateway, claimed)


def test_an_unknown_run_and_one_without_output(gateway: Installation, owner: httpx2.Client) -> None:
    assert owner.get("/api/runs/none/transcript").json()["code"] == "unknown_run"
    assert owner.get("/api/runs/none/output/file").json()["code"] == "unknown_run"
    claimed, file = begun(gateway, owner, b"")
    file.unlink()
    assert read(owner, claimed) == {"items": [], "next": 0, "ended": False}
    end(gateway, claimed)
    assert read(owner, claimed) == {"items": [], "next": None, "ended": True}


def test_the_output_can_be_downloaded_as_it_is(gateway: Installation, owner: httpx2.Client) -> None:
    content = b"<script>\x1b[31m\xff\n" * 40_000
    claimed, _ = begun(gateway, owner, content)
    path = f"/api/runs/{claimed.job.run_id}/output/file"
    answer = owner.get(path)
    assert answer.content == content
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"].startswith("attachment; ")
    other = gateway.client(gateway.token_for(Scope.READ, project="elsewhere"))
    assert other.get(path).status_code == 404
    assert gateway.client(gateway.token_for(Scope.SUBMIT)).get(path).status_code == 403
    end(gateway, claimed)
