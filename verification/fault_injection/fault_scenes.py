"""The scenes of fault cells, as data: which process meets which failpoint, with which work."""

from dataclasses import dataclass

from detent.failpoints import Action
from verification.fault_injection.environment import POSTGRES, SQLITE

BOTH, FILE = frozenset({SQLITE, POSTGRES}), frozenset({SQLITE})


@dataclass(frozen=True, slots=True)
class Scene:
    """Which process meets a failpoint, with which work, on which occurrence."""

    point: str
    role: str = "worker"
    intent: str = "tour"
    count: int = 1
    #: Stores on which a process that is stopped here holds a lock that others need.
    blocks: frozenset[str] = frozenset()
    #: A stopped process goes on while another is at its work, not when all is done.
    midway: bool = False
    #: Met by the same process, in whatever order it comes to them.
    others: tuple["Scene", ...] = ()

    def __str__(self) -> str:
        more = f" and {len(self.others)} more" if self.others else ""
        return f"{self.point}{more}@{self.role}"

    def armed(self, action: Action, count: int | None) -> str:
        """What the process is armed with: `name:action:count` for each."""
        each = [(self.point, count or self.count), *((one.point, one.count) for one in self.others)]
        return ",".join(f"{point}:{action}:{number}" for point, number in each)


SCENES: tuple[Scene, ...] = (
    Scene("migration.commit", "first", blocks=BOTH),
    Scene("transaction.begun", count=5, blocks=FILE),
    Scene("commit.before", count=5, blocks=BOTH),
    Scene("commit.after", count=5, blocks=FILE),
    Scene("save.before", count=2, blocks=BOTH),
    Scene("answer.before", count=2),
    Scene("claim.chosen", blocks=BOTH),
    Scene("claim.after"),
    Scene("due.found", blocks=FILE),
    Scene("renew.before", intent="long"),
    Scene("renew.after", intent="long"),
    Scene("worker.registered"),
    Scene("run.start"),
    Scene("step.done"),
    Scene("step.recorded"),
    Scene("effect.begun"),
    Scene("effect.done"),
    Scene("wait.before"),
    Scene("subtask.submitted"),
    Scene("report.before"),
    Scene("report.after"),
    Scene("spawn.before", intent="command"),
    Scene("spawn.after", intent="command"),
    Scene("output.write"),
    Scene("evidence.write"),
    Scene("evidence.archived"),
    Scene("plan.recorded", intent="thought-out"),
    Scene("plan.step_started", intent="planned"),
    Scene("plan.step_ended", intent="planned"),
    Scene("keeper.elected", "keeper"),
    Scene("keeper.duty", "keeper", count=2),
    Scene("seal.before", "keeper"),
    Scene("schedule.submitted", "keeper"),
    Scene("webhook.filled", "keeper"),
    Scene("webhook.sent", "keeper"),
    Scene("state.replace", "keeper"),
    Scene("request.received", "gateway", intent="small"),
    Scene("response.before", "gateway", intent="small"),
    Scene("commit.before", "gateway", intent="small", count=3, blocks=BOTH),
    Scene("commit.after", "gateway", intent="small", count=3, blocks=FILE),
    Scene("feed.read", "feed", intent="small"),
    Scene("feed.history", "feed", intent="small"),
)


#: The end of a run is reported while another worker, which has written nothing yet, holds its job.
LATE_REPORT = Scene("report.before", intent="held", midway=True)

#: Before every kind of write: the sleeper wakes while another worker holds its job.
SLEEPERS: tuple[Scene, ...] = (
    LATE_REPORT,
    *(
        Scene(point, intent="long", midway=True)
        for point in (
            *("renew.before", "step.done", "effect.begun", "effect.done", "evidence.archived"),
            *("subtask.submitted", "output.write", "run.start", "claim.after"),
        )
    ),
)
