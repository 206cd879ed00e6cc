"""Material for the schema tests: things in every state, and requests that should be answered well.

Ids and names are looked up where the paths themselves list them, so that a new route finds its own.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import httpx2

from detent.engine import Claimed
from detent.engine.claims import ClaimRequest
from detent.ids import new_id
from detent.keeper import intake_drain
from detent.kernel import commands as c
from detent.kernel.commands import review_commands as rc
from detent.kernel.commands.limit_commands import EndPause
from detent.kernel.variants import VARIANT
from detent.operations.registry import OWNER
from detent.operations.run_tokens import issue_run_token
from detent.operations.users import Identity, offer_login, sign_in
from detent.pkce import challenge_of
from tests.gateway.installation import WORKER, Installation

Json = dict[str, Any]
NAME = "demo"
ONCE = {"retry": {"max_attempts": 1}}
#: The diff that a run leaves for a review.
CHANGES = b"diff --git a/src/app.py b/src/app.py\n--- a/src/app.py\n+++ b/src/app.py\n"
CHANGES += b"@@ -1 +1 @@\n-old\n+new\n"
CHANGES_SHA256 = sha256(CHANGES).hexdigest()
#: What the examples of the document leave open, by operation.
DOCUMENTS = Path(__file__).parent.parent / "lifecycles" / "documents"
#: Lines of that diff, and the id of a comment on them.
LINES = {"diff": CHANGES_SHA256, "file": "src/app.py", "side": "after", "start": 1, "end": 1}
COMMENT = rc.NewComment(
    "remark", CHANGES_SHA256, "r", "src/app.py", "after", 1, 1, ("new",), "Why?"
)
#: Routes that need a provider or a forge, and the roles of the person who signs in without one.
OF_OTHERS = ("/api/login/oidc", "/api/login/oidc/callback", "/hooks/github", "/hooks/gitlab")
ROLES = ("testers=viewer",)
PERSON = Identity("https://sso.example", "1", "pam@example.com", ("testers",))
VERIFIER = "v" * 43
BODIES: Mapping[str, Json] = {
    "switch_project": {},
    "add_comment": {**LINES, "text": "Why?"},
    "save_draft": {**LINES, "text": "Why?"},
    "install_lifecycle": {"document": (DOCUMENTS / "release.toml").read_text(encoding="utf-8")},
    "put_schedule": {"intent": "runQA", "every_s": 60},
    "own_evidence": {"name": "notes.log", "text": "all well"},
    "choose_variant": {"variant": 1},
    "mark_viewed": {"diff": CHANGES_SHA256, "path": "src/app.py"},
}
QUERIES: Mapping[str, dict[str, str]] = {
    "review_file": {"path": "src/app.py"},
    "review_between": {"since": CHANGES_SHA256},
}


def running(gateway: Installation) -> Claimed:
    unpause(gateway)
    return gateway.claim(made(gateway, run=True))


def run_token(gateway: Installation) -> str:
    """The token of a run that is under way."""
    claimed = running(gateway)
    assert claimed.job.run_id is not None
    commented(gateway, str(claimed.job.task_id))
    return issue_run_token(gateway.core, claimed.grant, claimed.job.run_id)


def owner_of(gateway: Installation) -> httpx2.Client:
    """One client for all: making one is slow."""
    return gateway.clients[0] if gateway.clients else gateway.client()


def made(gateway: Installation, **fields: Any) -> str:
    answer = owner_of(gateway).post("/api/tasks", json={"intent": "runQA", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def commented(gateway: Installation, task_id: str) -> None:
    gateway.core.engine.do(rc.AddComments(task_id, (COMMENT,)), OWNER.actor)


# ---- things in every state -------------------------------------------------------------------


def fill(gateway: Installation) -> None:
    """Tasks, jobs and runs in every state that a route may ask for."""
    owner = owner_of(gateway)
    unpause(gateway)
    made(gateway)
    made(gateway, run=True)
    gateway.complete(made(gateway, run=True))
    gateway.complete(made(gateway, run=True, lifecycle="board"))
    gateway.ask(made(gateway, run=True), "Go on?")
    owner.post(f"/api/tasks/{made(gateway, run=True)}/cancel")
    owner.post(f"/api/tasks/{made(gateway, parent_id=made(gateway, run=True))}/cancel")
    for lifecycle in ("review", "board"):
        failing = made(gateway, run=True, lifecycle=lifecycle, options=ONCE)
        report(gateway, failing, lambda g, run: c.FailRun(g, run, "error", "it broke", 1))
    late = made(gateway, run=True, options=ONCE)
    report(gateway, late, c.TimeOutRun)
    job = owner.post("/api/jobs", json={"intent": "runQA", "options": ONCE}).json()["id"]
    for each in gateway.core.engine.claim(ClaimRequest("by-hand", "nonce", 100)):
        if each.job.id == job:
            gateway.report(c.RecordCheckpoint(each.grant, "build", "kept"))
            gateway.report(c.FailRun(each.grant, str(each.job.run_id), "error", "it broke", 1))
    asking(gateway, owner)
    compared(gateway)
    evidence(gateway)
    commented(gateway, reviewable(gateway))
    by_hand(gateway, owner)
    refused_submission(gateway)
    named(gateway, owner)


def compared(gateway: Installation) -> None:
    """A task with two variants, the first of which has ended well."""
    task_id = made(gateway, run=True, options={"variants": 2})
    claimed = gateway.claim(task_id)
    variants = []
    for number in (1, 2):
        marked = {"number": number, "job_id": claimed.job.id, "set": 1}
        variant = c.SubmitTask(
            new_id(),
            "default",
            "review",
            "runQA",
            "subtask",
            queue=True,
            parent_id=task_id,
            options={VARIANT: marked},
        )
        variants.append(gateway.core.engine.do(variant, OWNER.actor))
    needs = tuple(f"task:{each}" for each in variants)
    wait: dict[str, Any] = {"needs": needs, "detail": {"outcomes": True}}
    gateway.report(
        c.SuspendRun(claimed.grant, str(claimed.job.run_id), "variants", "subtasks", **wait)
    )
    gateway.complete(variants[0])


def asking(gateway: Installation, owner: httpx2.Client) -> None:
    """A job alone that waits for an answer."""
    job = owner.post("/api/jobs", json={"intent": "runQA"}).json()["id"]
    for each in gateway.core.engine.claim(ClaimRequest("by-hand", "nonce", 100)):
        if each.job.id == job:
            run_id = str(each.job.run_id)
            gateway.report(c.SuspendRun(each.grant, run_id, "ask", "question", detail={}))


def unpause(gateway: Installation) -> None:
    """What was paused on the way would keep everything else from running."""
    with gateway.core.store.read() as view:
        names = list(view.rows("limits"))
    for name in names:
        gateway.core.engine.do(EndPause(name), OWNER.actor)


def report(
    gateway: Installation, task_id: str, command: Callable[[c.Grant, str], c.Command]
) -> None:
    claimed = gateway.claim(task_id)
    gateway.core.engine.do(command(claimed.grant, str(claimed.job.run_id)), WORKER)


def evidence(gateway: Installation) -> None:
    """A run that is under way and has left a file behind."""
    held = {"Authorization": f"Bearer {run_token(gateway)}"}
    answer = owner_of(gateway).post("/api/run/evidence", json=BODIES["own_evidence"], headers=held)
    assert answer.status_code == 201, answer.text


def reviewable(gateway: Installation) -> str:
    """A task in review whose run has left a diff."""
    task_id = made(gateway, run=True)
    claimed = gateway.claim(task_id)
    leave_diff(gateway, claimed)
    gateway.report(c.CompleteRun(claimed.grant, str(claimed.job.run_id), None, 0))
    return task_id


def leave_diff(gateway: Installation, claimed: Claimed) -> None:
    blob = gateway.core.store.blobs.put(BytesIO(CHANGES))
    added = ("changes.diff", "unknown", blob.sha256, blob.size)
    gateway.report(c.AddEvidence(claimed.grant, str(claimed.job.run_id), *added))


def by_hand(gateway: Installation, owner: httpx2.Client) -> None:
    """A job that waits, and a run that a person has begun."""
    for _ in range(2):
        job = owner.post("/api/jobs", json={"intent": "runQA"}).json()["id"]
    owner.post(f"/api/jobs/{job}/runs", json={})


def refused_submission(gateway: Installation) -> None:
    """A submission of another program's transaction that was refused."""
    gateway.core.engine.transaction(lambda tx: tx.put_intake("submit_job", "no JSON"))
    intake_drain.run(gateway.core)


def named(gateway: Installation, owner: httpx2.Client) -> None:
    """One of everything that has a name."""
    gateway.core.engine.transaction(
        lambda tx: tx.put_rows("workers", {NAME: {"host": "h", "pid": 1}})
    )
    document = (DOCUMENTS / "kanban.toml").read_text(encoding="utf-8")
    assert owner.post("/api/lifecycles", json={"document": document}).status_code < 300
    owner.post("/api/projects", json={"name": NAME})
    owner.post("/api/tokens", json={"name": NAME, "scopes": ["read"]})
    described = owner.get("/openapi.json").json()
    for path, methods in described["paths"].items():
        if "put" in methods and path.endswith("/{name}") and "{task_id}" not in path:
            answer = owner.put(path.format(name=NAME), json=body_of(methods["put"]))
            assert answer.status_code < 300, answer.text


# ---- requests that should be answered well ---------------------------------------------------


class GeneratedRequest:
    """A request to an operation."""

    def __init__(self, method: str, path: str, content: bytes | None, media_type: str) -> None:
        self.method = method
        self.path = path
        self.content = content
        self.headers = {} if content is None else {"Content-Type": media_type}


def wanted(
    gateway: Installation, method: str, path: str, operation: Json
) -> Iterator[GeneratedRequest]:
    """The operation with what the document gives as an example, for everything that there is."""
    owner = owner_of(gateway)
    content, media_type = _content(gateway, operation)
    query = QUERIES.get(operation["operationId"])
    if "{session_id}" in path:
        gateway.session_of(gateway.token)
    if path == "/api/resources/{name}/reset":
        owner.put(f"/api/resources/{NAME}", json={"service": "models"})
    if path.startswith("/api/users/"):
        sign_in(gateway.core, PERSON)
    for target in targets(owner, path):
        asked = target if query is None else f"{target}?{urlencode(query)}"
        yield GeneratedRequest(method, asked, content, media_type)


def _content(gateway: Installation, operation: Json) -> tuple[bytes | None, str]:
    media = operation.get("requestBody", {}).get("content", {})
    if not media:
        return None, ""
    media_type = next(iter(media))
    if operation["operationId"] == "log_in":
        code = owner_of(gateway).post("/api/login/codes").json()
        return json.dumps({"code": code["code"]}).encode(), media_type
    if operation["operationId"] == "redeem_login":
        code = offer_login(gateway.core, PERSON, challenge_of(VERIFIER))
        return json.dumps({"code": code, "verifier": VERIFIER}).encode(), media_type
    if media_type != "application/json":
        return str(media[media_type]["example"]).encode(), media_type
    return json.dumps(body_of(operation)).encode(), media_type


def body_of(operation: Json) -> Any:
    example = operation["requestBody"]["content"]["application/json"]["example"]
    body = BODIES.get(operation["operationId"], example)
    return {**body, "taskId": new_id()} if "taskId" in body else body  # ids are given once


def targets(owner: httpx2.Client, path: str) -> Iterator[str]:
    """The path with every id or name that fits into it."""
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    for chosen in product(*(_known(owner, path, name) for name in names)):
        quoted = (quote(each, safe="") for each in chosen)
        yield path.format_map(dict(zip(names, quoted, strict=True)))


def _known(owner: httpx2.Client, path: str, parameter: str) -> list[str]:
    """What a parameter of the path may be: from the list of its kind."""
    if parameter == "comment_id":
        return [COMMENT.id]
    if parameter == "draft_id":
        return ["draft-1"]
    if parameter == "file":
        return [BODIES["own_evidence"]["name"]]
    lists = {"task_id": "/api/tasks", "job_id": "/api/jobs", "run_id": "/api/runs"}
    page = owner.get(lists.get(parameter) or path.partition("/{")[0], params={})
    found = page.json() if page.status_code == 200 else {}
    rows = found.get("items") or found.get("lifecycles") or []
    return [NAME, *(str(row.get("id") or row.get("name")) for row in rows if isinstance(row, dict))]
