"""Writes the database that later versions must still open: a small one with work of many kinds.

`python -m tools.golden` makes tests/golden/VERSION.db.gz and what is to be found in it, with a
fixed clock and fixed ids. One that was released is never written again.
"""

import gzip
import itertools
import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from detent.engine import Claimed, Engine
from detent.engine.claims import ClaimAsk
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.port import Query, Store
from detent.store.sqlite import SqliteStore
from detent.store.sqlite.backup import back_up
from detent.testing.clock import VirtualClock

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
PERSON, SECOND_US = c.Actor("person:ann"), 1_000_000
PLAN = {"steps": [{"name": "dig"}, {"name": "fill", "needs": ["dig"]}]}


class Story:
    """Work on a store: time passes with every command, ids and nonces are counted."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.engine, self.clock = Engine(store), clock
        self.nonces = itertools.count(1)

    def do(self, command: c.Command) -> Any:
        self.clock.advance(seconds=1)
        return self.engine.do(command, PERSON)

    def task(self, name: str, **fields: Any) -> None:
        known = {"lifecycle": "board", "intent": name, "source": "cli", "queue": True}
        self.do(c.SubmitTask(**{"task_id": name, "project": "golden", **known, **fields}))

    def claim(self, intent: str) -> Claimed:
        self.clock.advance(seconds=1)
        ask = ClaimAsk("worker-1", f"nonce-{next(self.nonces)}", 1, [intent])
        (claimed,) = self.engine.claim(ask)
        return claimed

    def complete(self, claimed: Claimed, result: Any = None) -> None:
        self.do(c.CompleteRun(claimed.grant, claimed.job.run_id or "", result))


def tell(story: Story) -> None:
    """What happened, in the order of the log."""
    story.task("plain", payload={"n": 1, "text": "grüße"}, tags=("red",), title="Plain")
    plain = story.claim("plain")
    run = plain.job.run_id or ""
    story.do(c.ReportProgress(plain.grant, run, 0.5, "half"))
    story.do(c.RecordCheckpoint(plain.grant, "page-1", {"read": [1, 2]}))
    story.do(c.AddEvidence(plain.grant, run, "a.log", "log", "0" * 64, 9))
    story.complete(plain, {"ok": True})

    story.task("deleted", payload={"secret": "gone"})
    story.complete(story.claim("deleted"))
    story.do(c.DeleteTask("deleted"))

    story.task("asking")
    asking = story.claim("asking")
    detail = {"text": "Go on?", "options": ["yes", "no"]}
    run = asking.job.run_id or ""
    story.do(c.SuspendRun(asking.grant, run, "ask", "question", detail=detail))

    story.task("needed")
    story.task("waiting", depends_on=("needed",), lifecycle="review")
    story.task("planned", options={"plan": PLAN})
    planned = story.claim("dig")
    story.do(c.StartStep(planned.grant, "dig"))

    story.task("cancelled")
    story.do(c.CancelTask("cancelled"))

    story.do(c.SubmitJob("alone", "golden", "alone", options={"job_timeout_ms": 86_400_000}))
    alone = story.claim("alone")
    due_at = story.clock() + 3_600 * SECOND_US
    story.do(c.SuspendRun(alone.grant, alone.job.run_id or "", "nap", "timer", due_at=due_at))


def found_in(store: Store) -> dict[str, Any]:
    """What a later version must find: the end of the hash chain, and the state of every row."""
    verdict = verify(store)
    with store.read() as view:
        return {
            "anchor": verdict.anchor._asdict(),
            "differences": verdict.differences,
            "tasks": {row["id"]: row["state"] for row in view.page(Query("tasks"))},
            "jobs": {row["id"]: row["state"] for row in view.page(Query("jobs"))},
            "streams": sorted({event.stream for event in view.events(0, 10_000)}),
        }


def make(directory: Path, name: str) -> None:
    """Tell the story to a new database, and keep that and what is in it."""
    with tempfile.TemporaryDirectory() as scratch:
        clock = VirtualClock()
        store = SqliteStore(Path(scratch) / "detent.db", clock)
        tell(Story(store, clock))
        found = found_in(store)
        store.close()
        back_up(Path(scratch) / "detent.db", Path(scratch) / "copy.db")
        content = (Path(scratch) / "copy.db").read_bytes()
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.db.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    (directory / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")


def main(arguments: list[str]) -> int:
    name = version("detent")
    if (GOLDEN / f"{name}.db.gz").exists() and arguments != ["--replace"]:
        print(f"{name} is there; it may only be written again before its release: --replace")
        return 1
    make(GOLDEN, name)
    print(f"wrote {GOLDEN / name}.db.gz")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
