"""Clients during failovers, each a process on a machine: they record what was acknowledged.

`engine` submits, claims and completes jobs on the database and follows the feed; `http` submits
tasks to a gateway; `holder` claims one job, waits, and then reports it although its lease has
expired. A record is one line of JSON, written after the acknowledgement.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from detent.engine import CommandRequest, Engine
from detent.engine.batch import Lifetimes
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError, Unavailable
from detent.feed import Tail
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.postgres import PostgresStore
from detent.store.types import LoggedEvent
from verification.fault_injection.client_history import OK
from verification.fault_injection.http_client import ask
from verification.patroni.acknowledgements import feed_of

ACTOR = c.Actor("person:patroni")
#: Between two rounds, so that the load leaves most of the machine to the cluster.
PAUSE_S = 0.1
AGAIN_S = 0.1
HTTP_WITHIN_S = 20.0
LEASE_S = 2.0
DIG, HOLD = "dig", "hold"


class Record:
    """A file with one line for each acknowledgement: its kind, the id, its begin and its time."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1, encoding="utf-8")

    def write(self, kind: str, key: str, began_s: float, **further: Any) -> None:
        line = {"kind": kind, "id": key, "began": began_s, "at": time.monotonic(), **further}
        self._file.write(json.dumps(line) + "\n")


def opened(url: str) -> Engine:
    """An engine on the store, as soon as the database can be reached."""
    while True:
        try:
            return Engine(PostgresStore(url), Lifetimes(lease_us=round(LEASE_S * 1_000_000)))
        except Unavailable:
            time.sleep(AGAIN_S)


# ---- the engine --------------------------------------------------------------------------------


def use_engine(url: str, path: Path) -> None:
    """Submit, claim and complete jobs without end, and follow the feed."""
    engine, record = opened(url), Record(path)
    threading.Thread(target=follow, args=(url, Record(feed_of(path))), daemon=True).start()
    while True:
        submit(engine, record)
        finish(engine, record)
        time.sleep(PAUSE_S)


def submit(engine: Engine, record: Record) -> None:
    """Submit a job until it is acknowledged; one that exists was written by an earlier attempt."""
    job_id = new_id()
    while True:
        began_s = time.monotonic()
        (result,) = engine.execute([CommandRequest(c.SubmitJob(job_id, "p", DIG), ACTOR)])
        if not isinstance(result, DetentError) or result.code == "job_exists":
            record.write("submitted", job_id, began_s)
            return
        record.write("refused", job_id, began_s, code=result.code)
        time.sleep(AGAIN_S)


def finish(engine: Engine, record: Record) -> None:
    """Claim what there is and complete it; a report without an answer is not repeated."""
    try:
        held = engine.claim(ClaimRequest("digger", new_id(), 4, intents=[DIG, HOLD]))
    except DetentError as error:
        record.write("refused", "claim", time.monotonic(), code=error.code)
        return
    for each in held:
        began_s = time.monotonic()
        report = c.CompleteRun(each.grant, each.job.run_id or "")
        (result,) = engine.execute([CommandRequest(report, ACTOR)])
        if isinstance(result, DetentError):
            record.write("refused", each.job.id, began_s, code=result.code)
        else:
            record.write("completed", each.job.id, began_s)


def follow(url: str, record: Record) -> None:
    """Read the feed from the beginning, each event exactly once, also across failovers."""

    def deliver(batch: Sequence[LoggedEvent]) -> None:
        for each in batch:
            record.write("event", each.stream, 0.0, position=each.position, version=each.version)

    tail = Tail(opened(url).store, deliver, 0)
    while True:
        try:
            if not tail.step():
                time.sleep(PAUSE_S)
        except DetentError:
            time.sleep(AGAIN_S)


# ---- the others --------------------------------------------------------------------------------


def use_http(url: str, token: str, record: Record) -> None:
    """Submit tasks to a gateway, each with its own idempotency key until it is acknowledged."""
    for number in range(1 << 40):
        body = {"source": "api", "intent": "count", "payload": {"number": number}}
        key = new_id()
        while True:
            began_s = time.monotonic()
            answer = ask(url, token, "POST", "/add", body, key=key, timeout_s=HTTP_WITHIN_S)
            if answer.outcome == OK:
                record.write("task", str(answer.document["taskId"]), began_s)
                break
            record.write("refused", key, began_s, code=answer.code)
            time.sleep(AGAIN_S)
        time.sleep(PAUSE_S)


def hold(url: str) -> None:
    """Claim a job, say so, wait for a line, and then report the job as a stale worker does."""
    engine = opened(url)
    held = again(lambda: submit_and_claim(engine))
    print(held[0].job.id, flush=True)
    sys.stdin.readline()
    report = c.CompleteRun(held[0].grant, held[0].job.run_id or "")
    (result,) = again(lambda: engine.execute([CommandRequest(report, ACTOR)]))
    print(result.code if isinstance(result, DetentError) else "accepted", flush=True)


def submit_and_claim(engine: Engine) -> list[Any]:
    """Claim a job that was just submitted; nothing if another client was faster."""
    engine.do(c.SubmitJob(new_id(), "p", HOLD), ACTOR)
    return engine.claim(ClaimRequest("holder", new_id(), 1, intents=[HOLD]))


def again(call: Callable[[], list[Any]]) -> list[Any]:
    """The result of a call, repeated while it is empty or the store is unavailable."""
    while True:
        try:
            found = call()
        except Unavailable:
            found = []
        if found and not isinstance(found[0], Unavailable):
            return found
        time.sleep(AGAIN_S)


if __name__ == "__main__":
    role, *given = sys.argv[1:]
    if role == "engine":
        use_engine(given[0], Path(given[1]))
    elif role == "http":
        use_http(given[0], given[1], Record(Path(given[2])))
    else:
        hold(given[0])
