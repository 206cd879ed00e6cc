"""The end of a run: the faults have stopped, time passes, and nothing may be left that could run.

First without help: what is not waiting for a person or a signal must end by itself. Then all
questions are answered, all signals sent and all budgets raised, and everything must end. Whatever
is left then has a reason that `why` can name. No step that sleeps holds anything for so long.
"""

from collections.abc import Sequence

from detent.engine import CommandRequest, Engine
from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import EndLimit, EndPause
from detent.operations import schedules, why_reasons
from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.operations.why_reason import WhyContext
from detent.store.types import Query
from detent.testing.clock import VirtualClock
from verification.settlement import failed
from verification.simulation.auditor import Auditor
from verification.simulation.injected_faults import Violation
from verification.simulation.limit_records import S_US, Grid
from verification.simulation.planned_work import INTENT, RESOURCES
from verification.simulation.run_records import LEASE_US, MONEY, ROLE
from verification.simulation.virtual_keeper import Reader, VirtualKeeper
from verification.simulation.virtual_worker import Worker

#: Six leases a round; a quiet time longer than every timer, delay and limit ends it.
ROUND_US = 6 * LEASE_US
QUIET_ROUNDS = 6
MAX_ROUNDS = 300
#: More than any script has waits, with those of the work that it starts.
MAX_HELP = 20
DONE = ("done", "completed")
ENDED = (*DONE, "cancelled", "budget_exceeded")
#: What is answered in the end, by kind of question, and the money that is given.
ANSWERS = {"question": "yes", "confirmation": "confirm"}
ENOUGH = 1_000_000
#: Of the rest, the reasons of this many are checked.
MAX_ASKED = 40


def end_in_peace(
    auditor: Auditor,
    clock: VirtualClock,
    workers: Sequence[Worker],
    keepers: Sequence[VirtualKeeper],
    readers: Sequence[Reader],
) -> None:
    """Let everything come to its end, then check what is left."""
    cast: list[Worker | VirtualKeeper | Reader] = [*workers, *keepers, *readers]
    for each in cast:
        each.process.restart()
    with auditor.store.write() as tx:
        tx.put_rows("resources", RESOURCES)  # none is drained or limited any more
    auditor.plans.providers.forget()
    _end_limits(auditor, workers[0])
    _end_schedules(auditor, clock, keepers)
    _work_off(auditor, clock, workers, keepers)
    _nothing_runnable(auditor, helped=False)
    _nothing_held(auditor)
    for _ in range(MAX_HELP):
        if not _help(auditor, workers[0]):
            break
        _work_off(auditor, clock, workers, keepers)
    _nothing_runnable(auditor, helped=True)
    _everything_explained(auditor)
    for reader in readers:
        life = reader.life()
        while auditor.unread(reader.process.name):
            next(life)
    _whole_log(auditor)
    undone = auditor.run_records.undone()
    if undone:
        raise Violation(f"P6: recorded as done and never performed: {undone}")


#: The one schedule, and how often it fires. Every missed time is made up.
SCHEDULE, EVERY_S = "often", 240
#: The interval of the last keeper rounds: the delay differs at each time of the schedule.
LATE_US, LATE_ROUNDS = 97 * S_US, 20


def put_schedule(auditor: Auditor) -> None:
    """As an operator would, before anything else happens."""
    core = Core(auditor.store, Engine(auditor.store))
    schedules.put_schedule(
        core,
        OWNER,
        name=SCHEDULE,
        intent=INTENT,
        every_s=EVERY_S,
        overlap="allow",
        missed="all",
        options=dict(ROLE.options),
    )
    with auditor.store.read() as view:
        row = view.rows("schedules")[SCHEDULE]
    auditor.limits.schedules[SCHEDULE] = Grid(row["anchor_at"], EVERY_S * S_US)


def _end_schedules(auditor: Auditor, clock: VirtualClock, keepers: Sequence[VirtualKeeper]) -> None:
    """The keepers act on every time that has come; then the schedule is deleted.

    The times are counted by the clock of the keepers. While the wall clock is behind the store's
    time, the clock of a process counts on from the last time that this process has read. The
    auditor has read later times than were written, and the keepers, which have just been restarted,
    have not: its clock can be later than theirs by the whole time of a round.
    """
    for _ in range(LATE_ROUNDS):
        clock.advance(us=LATE_US)
        for keeper in keepers:
            next(keeper.life())
    auditor.look()
    for keeper in keepers:
        with keeper.process.store.read() as view:
            behind = auditor.limits.behind(view.now())
        if behind is not None:
            raise Violation(f"schedules: {behind}")
    core = Core(auditor.store, Engine(auditor.store))
    schedules.delete_schedule(core, OWNER, name=SCHEDULE)


def _end_limits(auditor: Auditor, worker: Worker) -> None:
    with auditor.store.read() as view:
        names = list(view.rows("limits"))
    process = worker.process
    for name in names:
        for command in (EndPause(name), EndLimit(name)):
            process.ask(CommandRequest(command, process.actor()))


def _work_off(
    auditor: Auditor,
    clock: VirtualClock,
    workers: Sequence[Worker],
    keepers: Sequence[VirtualKeeper],
) -> None:
    """Keepers keep and workers work, round after round, until nothing stirs for a while."""
    quiet = 0
    for _ in range(MAX_ROUNDS):
        clock.advance(us=ROUND_US)
        before = len(auditor.log)
        for keeper in keepers:
            next(keeper.life())
        for worker in workers:
            _work(worker)
        auditor.look()
        quiet = quiet + 1 if len(auditor.log) == before else 0
        if quiet == QUIET_ROUNDS:
            return
    raise Violation(f"P3: still not at rest after {MAX_ROUNDS} rounds")


def _work(worker: Worker) -> None:
    """Until a claim finds nothing."""
    for _ in worker.life():
        if not worker.hands:
            return


def _nothing_runnable(auditor: Auditor, *, helped: bool) -> None:
    """P3: every job has ended, or waits for something that has really not come."""
    with auditor.store.read() as view:
        rows = {row["id"]: row["state"] for row in view.page(Query("jobs", limit=1_000_000))}
        queue = [row["job_id"] for row in view.page(Query("queue", limit=1_000_000))]
    waiting = {job_id for job_id, _ in auditor.run_records.waits}
    for job_id, witness in auditor.witnesses.items():
        if job_id not in rows:
            raise Violation(f"P3: {job_id} is gone")
        if witness.ended is not None:
            if rows[job_id] != witness.ended:
                raise Violation(f"P9: {job_id} ended as {witness.ended} and is {rows[job_id]}")
        elif (
            _blocked_by_dependency(auditor, job_id)
            or _gathers(auditor, job_id)
            or (not helped and job_id in waiting)
        ):
            continue
        elif not _penniless_for_good(auditor, job_id):
            raise Violation(f"P3: {job_id} is left {rows[job_id]}: {witness}")
    if queue:
        raise Violation(f"P3: in the queue and not claimed: {queue}")


def _blocked_by_dependency(auditor: Auditor, job_id: str) -> bool:
    """One of its task's dependencies is not done."""
    task_id = auditor.world.jobs[job_id].task_id
    if task_id is None:
        return False
    tasks = auditor.world.tasks
    return any(tasks[each].state not in DONE for each in tasks[task_id].depends_on)


def _gathers(auditor: Auditor, job_id: str) -> bool:
    """It waits for the end of a subtask that has not ended, which has a reason of its own."""
    tasks = auditor.world.tasks
    needs = [
        each.partition(":")[2]
        for (waiting, _), wait in auditor.run_records.waits.items()
        if waiting == job_id and wait.kind == "subtasks"
        for each in wait.needs
        if each.startswith("task:")
    ]
    return any(tasks[each].state not in ENDED and not failed(tasks[each]) for each in needs)


def _penniless_for_good(auditor: Auditor, job_id: str) -> bool:
    """It waits for the money of a task that has ended, which can no longer be raised."""
    kinds = {
        wait.kind for (waiting, _), wait in auditor.run_records.waits.items() if waiting == job_id
    }
    line = auditor.money.line(auditor.money.task_of.get(job_id))
    tasks, accounts = auditor.world.tasks, auditor.money.accounts
    return bool(kinds.intersection(MONEY)) and any(
        tasks[each].state in ENDED and accounts[each].used_up for each in line
    )


def _nothing_held(auditor: Auditor) -> None:
    """No worker is active and all sleeping steps are over their limit: all resources are free."""
    with auditor.store.read() as view:
        held = [each for each in view.resources() if each.in_use]
    if held or auditor.plans.held:
        raise Violation(f"resources: still held are {held}, booked {auditor.plans.held}")


def _everything_explained(auditor: Auditor) -> None:
    """Work that has not ended says why."""
    tasks = [task for task in auditor.world.tasks.values() if task.state not in ENDED]
    with auditor.store.read() as view:
        look = WhyContext(view, blocked_ms=300_000, lease_ms=LEASE_US // 1_000)
        for task in tasks[-MAX_ASKED:]:
            if not why_reasons.why(look, task)["reasons"]:
                raise Violation(f"why: {task.id} is {task.state}, and there is no reason")


def _help(auditor: Auditor, worker: Worker) -> bool:
    """Answer and signal whatever is open; False if nothing was."""
    process = worker.process
    open_waits = dict(auditor.run_records.waits)
    for (job_id, name), wait in open_waits.items():
        for needed in wait.needs if wait.kind == "signal" else ():
            process.ask(CommandRequest(c.SendSignal(job_id, needed), process.actor()))
        if wait.kind in ANSWERS:
            process.ask(
                CommandRequest(c.AnswerJob(job_id, ANSWERS[wait.kind], name), process.actor())
            )
    for task_id in dict.fromkeys(auditor.short_of_money()):
        enough = auditor.money.accounts[task_id].spent + ENOUGH
        process.ask(CommandRequest(c.RaiseBudget(task_id, enough), process.actor()))
    return bool(open_waits)


def _whole_log(auditor: Auditor) -> None:
    """P7: what was taken in piece by piece is the log, and its positions only rise."""
    with auditor.store.read() as view:
        log = list(view.events(0, 10_000_000))
    positions = [event.position for event in log]
    if log != auditor.log or positions != sorted(set(positions)):
        raise Violation("P7: the log is not what was seen of it")
