"""The work that `hot_operations` measures, and the rows that fill a database for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from detent import feed
from detent.engine import Claimed, CommandRequest, Engine, Idempotency, due_timers
from detent.engine.claims import ClaimRequest
from detent.ids import new_id
from detent.kernel import commands as c

ACTOR = c.Actor("person:ann")
#: The number of jobs of one operation.
BATCH = 8
#: The columns that differ in the copies of a row: a letter before the number, or the number added.
COPIES: Mapping[str, Mapping[str, str]] = {
    "active_tasks": {"id": "c", "root_id": "c", "created_at": "", "state_at": ""},
    "ended_tasks": {"id": "d", "root_id": "d", "created_at": "", "state_at": ""},
    "active_jobs": {"id": "q", "root_id": "q", "rank": "", "created_at": "", "state_at": ""},
    "ended_jobs": {"id": "e", "root_id": "e", "created_at": "", "state_at": ""},
    "idempotency_keys": {"key": "k"},
    "deadlines": {"job_id": "q"},
    "waits": {"job_id": "q"},
}
#: Which row is copied, where the table has several.
SAMPLES = {"active_jobs": "state = 'queued'", "active_tasks": "state = 'pending'"}


@dataclass(slots=True)
class Workload:
    """The work of one process; the operations follow each other."""

    engine: Engine
    held: list[Claimed] = field(default_factory=list)

    def submit_jobs(self) -> None:
        commands = [c.SubmitJob(new_id(), "p", "dig", payload={"n": n}) for n in range(BATCH)]
        self.engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in commands])

    def submit_tasks(self) -> None:
        commands = [
            c.SubmitTask(new_id(), "p", "board", "fill", "cli", queue=True) for _ in range(BATCH)
        ]
        self.engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in commands])

    def submit_with_a_key(self) -> None:
        key = Idempotency("p", new_id(), "body")
        self.engine.execute([CommandRequest(c.SubmitJob(new_id(), "p", "dig"), ACTOR, key)])

    def claim(self, intents: Sequence[str] = ("dig", "fill")) -> None:
        request = ClaimRequest("w", new_id(), BATCH, [*intents])
        self.held = self.engine.claim(request)
        if not self.held:
            raise AssertionError("nothing was claimed")

    def renew(self) -> None:
        grants = [each.grant[:2] for each in self.held]
        if self.engine.renew("w", grants) != set(grants):
            raise AssertionError("a lease was not renewed")

    def checkpoint(self) -> None:
        commands = [c.RecordCheckpoint(each.grant, "page", 1) for each in self.held[:2]]
        self.engine.execute([CommandRequest(each, ACTOR) for each in commands])

    def complete(self) -> None:
        ends = [c.CompleteRun(each.grant, each.job.run_id or "") for each in self.held]
        self.engine.execute([CommandRequest(each, ACTOR) for each in ends])

    def run_due_timers(self) -> None:
        self.engine.transaction(lambda tx: due_timers.run(tx, 100, self.engine.lifetimes))

    def read_the_feed(self) -> None:
        feed.read(self.engine.store, feed.head(self.engine.store) - 50, 100)

    def read_history(self) -> None:
        with self.engine.store.read() as view:
            view.events(0, 100, stream=self.held[0].job.id)

    def everything(self) -> None:
        for operation in OPERATIONS.values():
            operation(self)


OPERATIONS: Mapping[str, Callable[[Workload], None]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(Workload.submit_jobs, Workload.submit_tasks, Workload.submit_with_a_key),
        *(Workload.claim, Workload.renew, Workload.checkpoint, Workload.complete),
        *(Workload.run_due_timers, Workload.read_the_feed, Workload.read_history),
    )
}


def make_samples(engine: Engine) -> None:
    """One row of each table that gets copies: the tables have no other rows."""
    work = Workload(engine)
    work.submit_with_a_key()
    engine.do(c.SubmitTask(new_id(), "p", "board", "fill", "cli", queue=True), ACTOR)
    work.claim()
    work.complete()
    options = {"job_timeout_ms": 86_400_000}
    engine.do(c.SubmitJob("sample", "p", "sleep", options=options), ACTOR)
    work.claim(["sleep"])
    (held,) = work.held
    far = 1 << 60
    wait = c.SuspendRun(held.grant, held.job.run_id or "", "nap", "timer", due_at=far)
    engine.do(wait, ACTOR)
    engine.do(c.SubmitTask(new_id(), "p", "board", "fill", "cli"), ACTOR)
    engine.do(c.SubmitJob(new_id(), "p", "dig", payload={"n": 1}), ACTOR)


def copy_statements(columns: Mapping[str, Sequence[str]], numbers: str) -> Iterator[str]:
    """Statements that add copies of the sample rows; `numbers` is a table with a column `n`."""
    for table, changed in COPIES.items():

        def column(name: str, changed: Mapping[str, str] = changed) -> str:
            if name not in changed:
                return f"sample.{name}"
            letter = changed[name]
            return f"'{letter}' || (1000000000 + n)" if letter else f"sample.{name} + n"

        names = columns[table]
        yield (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(map(column, names))} "
            f"FROM (SELECT * FROM {table} WHERE {SAMPLES.get(table, 'true')} LIMIT 1) AS sample "
            f"CROSS JOIN {numbers}"
        )
    yield (
        "INSERT INTO stream_commits (stream, commit_id) "
        f"SELECT 's' || (1000000000 + n), n FROM {numbers}"
    )
