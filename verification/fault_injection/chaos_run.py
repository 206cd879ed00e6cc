"""A chaos run: a cluster under load with injected faults, then recovery, then the check.

Meanwhile the log is read over WebSockets, server-sent events, pages and a webhook, and each reader
is compared with it. What it leaves when it fails is a directory with everything that was seen, and
the command that does the same again.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from detent.errors import DetentError
from detent.operations.context import Core
from verification.fault_injection import client_history, collected_results, deliveries, receiver
from verification.fault_injection.checker import Seen
from verification.fault_injection.client_history import History
from verification.fault_injection.cluster import Cluster
from verification.fault_injection.cluster_faults import OF_A_FILE, OF_A_SERVER, Injector
from verification.fault_injection.environment import (
    ACTOR,
    SQLITE,
    Environment,
    Failed,
    live,
    until,
)
from verification.fault_injection.followed_tasks import (
    LIFECYCLES,
    follow,
    install_release,
    traces_in,
)
from verification.fault_injection.load import CLIENTS, Client, total
from verification.fault_injection.log_readers import KINDS, FollowedLog, Readers
from verification.fault_injection.process_supervisor import ProcessSupervisor

if TYPE_CHECKING:  # a plain installation has no PostgreSQL
    from verification.postgres_server import Server

Say = Callable[[str], None]
#: How often progress is printed.
SAY_EVERY_S = 5.0
#: A slow machine gets up to this much more time, until enough was observed.
MAX_MORE_S = 180.0
#: How often that is checked.
LOOK_EVERY_S = 1.0
#: Readers of each kind; one webhook message in CUT_EVERY is cut off without an answer.
READERS, CUT_EVERY = 2, 400
#: After the faults: how long until one more answer has come, or one more job has ended.
RECOVERY_S = 90.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for; the same plan is the same load and the same faults in the same order."""

    seed: int = 1
    minutes: float = 1.0
    store: str = SQLITE
    faults: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.faults or (OF_A_FILE if self.store == SQLITE else OF_A_SERVER)

    def command(self) -> str:
        faults = f" --faults {','.join(self.faults)}" if self.faults else ""
        return (
            f"python -m verification.fault_injection --store {self.store} --seed {self.seed} "
            f"--minutes {self.minutes:g}{faults}"
        )


@dataclass(slots=True)
class Report:
    """What was seen, and what of it is wrong."""

    plan: Plan
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def lines(self) -> list[str]:
        seen = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        return [f"seen: {seen}", f"faults: {done}", *self.problems]


class ChaosRun:
    """One run of a plan in a directory of its own."""

    def __init__(self, plan: Plan, supervisor: ProcessSupervisor, where: Path, say: Say) -> None:
        self.plan, self.where, self.say = plan, where, say
        self.report = Report(plan)
        #: What the log contained so far, and up to which position.
        self._logged: Counter[str] = Counter()
        self._looked = 0
        #: The log as far as it was read during the recovery.
        self._log = FollowedLog(receiver.EVENTS)
        #: The end of the log when readers last had to have all of it. A timer may add to it later.
        self._head = 0
        self._stack = ExitStack()
        self.server = None if plan.store == SQLITE else self._serve()
        url = "" if self.server is None else self.server.create_database("faults")
        self.environment = Environment(supervisor, where / "environment", url)
        self.cluster = Cluster(self.environment)
        self.history = History(where / "history.jsonl")
        rng = Random(plan.seed)
        self.injector = Injector(self.cluster, Random(rng.random()), plan.kinds, self.server)
        self.clients = [
            Client(self.cluster, self.history, Random(rng.random()), f"client-{number}")
            for number in range(CLIENTS)
        ]
        self.readers = self._readers(Random(rng.random()))
        self.receiver = self._stack.enter_context(receiver.receiving(CUT_EVERY))

    def _readers(self, rng: Random) -> Readers:
        """Each chooses a gateway whenever it connects."""

        def address() -> str | None:
            return self.cluster.address(Random(rng.random()))

        return Readers(
            kind(
                f"{kind.kind}-{number}",
                address,
                lambda: self.environment.token,
                Random(rng.random()),
            )
            for kind in KINDS
            for number in range(READERS)
        )

    def _serve(self) -> "Server":
        from verification.postgres_server import Server

        return self._stack.enter_context(Server.start(self.where / "pg"))

    def run(self) -> Report:
        begun_s = time.monotonic()
        try:
            self._inject_faults()
            self._recover()
            self._judge()
        except (Failed, DetentError, TimeoutError) as error:
            self.report.problems.append(f"{type(error).__name__}: {error}")
        finally:
            self.readers.end()
            self.environment.end()
            self.history.close()
            self._stack.close()
        self.report.seconds = time.monotonic() - begun_s
        self._write_report()
        return self.report

    # -- the parts of it -------------------------------------------------------------------

    def _inject_faults(self) -> None:
        self.cluster.start()
        self._start_readers()
        self.say(f"{sum(self.cluster.started.values())} processes are up on {self.plan.store}")
        self.injector.start()
        for client in self.clients:
            client.start()
        ends_s = time.monotonic() + self.plan.minutes * 60
        never = threading.Event()
        while (left_s := ends_s - time.monotonic()) > 0:
            never.wait(min(left_s, SAY_EVERY_S))
            self.say(self._progress(ends_s - time.monotonic()))
        while time.monotonic() < ends_s + MAX_MORE_S and self._shows_too_little():
            never.wait(LOOK_EVERY_S)
        self.injector.end()
        for client in self.clients:
            client.end()
        self.report.faults = self.injector.done

    def _start_readers(self) -> None:
        with self.environment.core() as core:
            install_release(core, ACTOR)
            self.receiver.subscribe(core)
        self.readers.start()

    def _progress(self, left_s: float) -> str:
        counts = total(self.clients)
        by_end = {end: sum(counts[each] for each in counts if each.endswith(end)) for end in ENDS}
        faults = sum(dict(self.injector.done).values())
        ends = ", ".join(f"{count} {end}" for end, count in by_end.items())
        return f"{max(left_s, 0):5.0f} s left: asked {ends}; {faults} faults"

    def _shows_too_little(self) -> bool:
        """Whether it would prove nothing if it ended now."""
        try:
            with self.environment.core() as core:
                for piece in collected_results.pieces_of(core.store, self._looked):
                    self._logged += counted(piece)
                    self._looked = piece[-1].position
        except Exception:  # while the store is unavailable, with any error
            return True
        seen = self._logged.copy()
        seen["marks"] = self.environment.effects.size()
        seen["stale writes refused"] = self.environment.refused()
        faults = Counter(dict(self.injector.done))
        counts = total(self.clients) + seen + self._read()
        now = Report(self.plan, counts=counts, faults=faults)
        return bool(too_little(now))

    def _read(self) -> Counter[str]:
        """What the readers of the log have seen."""
        webhook = {
            "webhook messages": len(self.receiver.messages),
            "webhook messages cut off": self.receiver.cuts,
        }
        return self.readers.counts() + Counter(webhook)

    def _recover(self) -> None:
        """Without faults: submissions are answered, work ends, processes stop."""
        self.environment.clock.unlink(missing_ok=True)
        self.cluster.refill_all()
        settling = [
            threading.Thread(target=each.settle, args=(RECOVERY_S,)) for each in self.clients
        ]
        for thread in settling:
            thread.start()
        for thread in settling:
            thread.join()
        if any(client.unknown for client in self.clients):
            raise Failed("P3: submissions are not answered although the faults have stopped")
        with self.environment.core() as core:
            while (left := live(core)) and self._is_worked_off(core, left):
                pass
            while (left := self._unread(core)) and self._is_read(core, left):
                pass
        self.readers.end()
        self.report.problems += self.environment.end()

    def _is_worked_off(self, core: Core, left: int) -> bool:
        """Whether some of the rest ends in time; a slow machine may take long for all of it."""

        def less() -> bool:
            self.cluster.refill_all()
            return live(core) < left

        return bool(until(less, f"all work has ended: {left} jobs make no progress", RECOVERY_S))

    def _unread(self, core: Core) -> int:
        """How many events readers of the log have still to get, all together."""
        self._log.read(core.store)
        self._head = self._log.head
        left = sum(len(self._log.all.between(each.cursor, self._head)) for each in self.readers.all)
        received = {each.event for each in [*self.receiver.messages]}
        return left + len({*self._log.named.events} - received)

    def _is_read(self, core: Core, left: int) -> bool:
        def less() -> bool:
            self.cluster.refill_all()
            return self._unread(core) < left

        return bool(
            until(less, f"readers have the whole log: {left} events are missing", RECOVERY_S)
        )

    def _judge(self) -> None:
        self.history.close()
        history = client_history.read(self.where / "history.jsonl")
        with self.environment.core() as core:
            seen = collected_results.gather(core.store, self.environment.effects, history)
            self.report.problems += collected_results.judge(
                core.store, self.environment.effects, history
            )
            log = FollowedLog(receiver.EVENTS)  # as it is in the end
            log.read(core.store)
            self.report.problems += self.readers.problems(log.all, self._head)
            checked, offences = follow([traces_in(core.store)])
            self.report.problems += offences
        self.report.problems += deliveries.webhook_problems(self.receiver.messages, log.named)
        self.report.counts = total(self.clients) + counted(seen.log) + self._read()
        self.report.counts["marks"] = sum(map(len, seen.effects.values()))
        self.report.counts |= checked.counts()
        self.report.counts["stale writes refused"] = self.environment.refused()
        self.report.problems += too_little(self.report)

    def _write_report(self) -> None:
        report = {
            "command": self.plan.command(),
            "problems": self.report.problems,
            "counts": self.report.counts,
            "faults": self.report.faults,
            "seconds": self.report.seconds,
        }
        (self.where / "report.json").write_text(json.dumps(report, indent=2) + "\n")


ENDS = ("ok", "refused", "unknown")


# ---- whether enough was seen -----------------------------------------------------------------


def counted(log: Iterable[Seen]) -> Counter[str]:
    """What the log shows of the chaos run."""
    counts: Counter[str] = Counter()
    for event in log:
        lost = event.name == "job_requeued" and event.data.get("reason") == "lost"
        counts["reclaimed"] += lost
        counts["events"] += 1
        for name in ("job_completed", "job_cancelled", "task_accepted", "wait_completed"):
            counts[name] += event.name == name
        if event.name == "task_created":
            counts[f"tasks of {event.data['lifecycle']}"] += 1
    return counts


#: Per minute, at least this often, or the chaos run proves nothing, on a slow machine too.
LEAST: Mapping[str, float] = {
    "submit ok": 60,
    "repeated": 15,
    "job_completed": 40,
    "job_cancelled": 2,
    "task_accepted": 2,
    "wait_completed": 6,
    "cancel ok": 2,
    "answer ok": 2,
    "reject ok": 1,
    "marks": 80,
    "events by WebSocket": 400,
    "events by SSE": 400,
    "events by pages": 400,
    "webhook messages": 20,
    **{f"tasks of {name}": 6 for name in LIFECYCLES},
    "events ok": 1,
    "cuts of WebSocket": 6,
    "cuts of SSE": 6,
    "cuts of pages": 6,
}
#: From this many minutes on, every kind of fault must have been injected.
WHOLE = 0.5
#: How often PostgreSQL is killed in a minute, at least.
KILLS = 20
#: Faults that take leases away, and those that leave clients without an answer.
LOSING = ("kill-worker", "stop-worker", "failpoint")
SILENCING = ("kill-gateway", "stop-gateway")
#: Faults that end the connections of readers.
CUTTING = ("kill-gateway", "cut", "kill-database")


def too_little(report: Report) -> list[str]:
    """A chaos run in which nothing happened proves nothing."""
    least = {name: round(rate * report.plan.minutes) for name, rate in LEAST.items()}
    kinds = report.plan.kinds
    least["reclaimed"] = _some(kinds, LOSING)
    least["submit unknown"] = _some(kinds, SILENCING)
    least["lost connections"] = _some(kinds, CUTTING)
    least["webhook messages cut off"] = 1
    if report.plan.minutes >= WHOLE:
        least["stale writes refused"] = _some(kinds, ("stop-worker",))
    if "kill-database" in kinds:
        least["kill-database"] = round(KILLS * report.plan.minutes)
    least["kinds of faults"] = len(kinds) if report.plan.minutes >= WHOLE else len(kinds) // 2
    seen = {
        **report.counts,
        **report.faults,
        "kinds of faults": sum(report.faults[kind] > 0 for kind in kinds),
    }
    return [
        f"too little: {name} {seen.get(name, 0)}, at least {wanted}"
        for name, wanted in least.items()
        if seen.get(name, 0) < wanted
    ]


def _some(kinds: Sequence[str], causes: Sequence[str]) -> int:
    return int(any(cause in kinds for cause in causes))
