"""Writes a small database with work of many kinds, which later versions must still open.

`python -m tools.golden` writes tests/golden/VERSION.db.gz and its expected content, with a fixed
clock and fixed ids. The database of a released version is never written again. Before the release,
`--replace` writes it again, and another argument is the name of the next version.
"""

import gzip
import itertools
import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from detent.engine import Claimed, CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.port import Store
from detent.store.sqlite import SqliteStore
from detent.store.sqlite.backup import back_up
from detent.store.types import Query
from detent.testing.clock import VirtualClock

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"
PERSON, SECOND_US = c.Actor("person:ann"), 1_000_000
PLAN = {"steps": [{"name": "dig"}, {"name": "fill", "needs": ["dig"]}]}


class Story:
    """Executes commands on a store with a fixed clock, fixed ids and fixed nonces."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self.engine, self.clock = Engine(store), clock
        self.nonces = itertools.count(1)

    def do(self, command: c.Command) -> Any:
        self.clock.advance(seconds=1)
        return self.engine.do(command, PERSON)

    def task(self, name: str, **fields: Any) -> None:
        known = {"lifecycle": "board", "intent": name, "source": "cli", "queue": True}
        self.do(c.SubmitTask(**{"task_id": name, "project": "golden", **known, **fields}))

    def batch(self, commands: Sequence[c.Command], *, fresh: bool = False) -> None:
        self.clock.advance(seconds=1)
        self.engine.execute([CommandRequest(each, PERSON, fresh=fresh) for each in commands])

    def claim(self, intent: str) -> Claimed:
        (claimed,) = self.claim_all(intent, 1)
        return claimed

    def claim_all(self, intent: str, limit: int) -> list[Claimed]:
        self.clock.advance(seconds=1)
        ask = ClaimRequest("worker-1", f"nonce-{next(self.nonces)}", limit, [intent])
        return self.engine.claim(ask)

    def complete(self, claimed: Claimed, result: Any = None) -> None:
        self.do(c.CompleteRun(claimed.grant, claimed.job.run_id or "", result))


def write_story(story: Story) -> None:
    """Execute the commands whose events the database contains."""
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
    write_sets(story)


def write_sets(story: Story) -> None:
    """Equal jobs and tasks in batches, which are written as sets; one of each is deleted."""
    jobs = [c.SubmitJob(f"set-job-{n}", "golden", "set", payload={"n": n}) for n in range(6)]
    tasks = [
        c.SubmitTask(f"set-task-{n}", "golden", "board", "set", "cli", queue=True, payload=[n])
        for n in range(6)
    ]
    story.batch(jobs, fresh=True)
    story.batch(tasks, fresh=True)
    held = story.claim_all("set", 10)
    story.batch([c.CompleteRun(each.grant, each.job.run_id or "", each.payload) for each in held])
    story.do(c.DeleteJob("set-job-2"))
    story.do(c.DeleteTask("set-task-1"))


def found_in(store: Store) -> dict[str, Any]:
    """What a later version must find: the end of the hash chain, and all states."""
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
    """Write a new database and its expected content."""
    with tempfile.TemporaryDirectory() as scratch:
        clock = VirtualClock()
        store = SqliteStore(Path(scratch) / "detent.db", clock)
        write_story(Story(store, clock))
        found = found_in(store)
        store.close()
        back_up(Path(scratch) / "detent.db", Path(scratch) / "copy.db")
        content = (Path(scratch) / "copy.db").read_bytes()
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.db.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    (directory / f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", "utf-8")


def main(arguments: list[str]) -> int:
    name, *_ = [*(each for each in arguments if each != "--replace"), version("detent")]
    if (GOLDEN / f"{name}.db.gz").exists() and "--replace" not in arguments:
        print(f"The database of {name} exists. Before the release, --replace writes it again.")
        return 1
    make(GOLDEN, name)
    print(f"wrote {GOLDEN / name}.db.gz")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
