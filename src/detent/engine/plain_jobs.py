"""Executes commands about plain work as sets: one decision and a few statements for many jobs.

A command is left to the general path if it is not about a plain job, if fewer than `FEWEST` equal
ones are in the batch, or if another command of the batch names the same job.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine.checkpoint_forms import CheckpointForm, checkpoint_form_of
from detent.engine.job_forms import (
    MAX_FORMS,
    Completed,
    Form,
    Recorded,
    Signature,
    ToClaim,
    form_of,
)
from detent.engine.plain_submissions import NULL, is_simple, plain_submission
from detent.engine.types import Claimed, CommandRequest, CommandResult
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.fair_shares import Shares
from detent.store.codec import NOT_JSON, encode, to_json
from detent.store.event_template import ID
from detent.store.job_sets import (
    CLAIMED,
    MAX_STEPS,
    ClaimedRow,
    JobSets,
    Member,
    NewCheckpoint,
    PlainRun,
    Shape,
    StartedRow,
    resolved,
)
from detent.store.port import WriteTransaction
from detent.store.types import Candidate, ClaimFilter

#: Smaller sets gain nothing.
FEWEST = 4
#: How many shapes of jobs one claim expects at most.
MAX_SHAPES = 4
#: How many claimed jobs are remembered at most.
MAX_REMEMBERED = 100_000


class Planned(NamedTuple):
    """Commands of one signature: their places in the batch, and the jobs with their values."""

    form: Form
    places: Sequence[int]
    members: Sequence[Member]
    #: Of completions: the nonce of each claim.
    nonces: Sequence[str]


class PlainWork(NamedTuple):
    """What a decision about a plain job depends on. `plain`: see `Candidate`."""

    project: str
    plain: str
    #: The number of checkpoints of its run.
    steps: int = 0


class PlainClaims:
    """What this process knows about plain jobs that it has claimed. Thread-safe.

    It is used to decide about them without reading them. The store refuses what has changed.
    """

    def __init__(self) -> None:
        #: By id of a claimed job.
        self._held: dict[str, PlainWork] = {}
        #: By what was asked for: the shapes of the jobs that were claimed last.
        self._last: dict[Any, tuple[Shape, ...]] = {}
        #: What `_held` has after the commit of the present batch.
        self._recorded: dict[str, PlainWork] = {}
        #: The signatures of few reports. A form is not derived for a single use.
        self._used: set[Recorded | Completed] = set()

    def add(self, ids: Iterable[str], shape: Shape) -> None:
        if len(self._held) > MAX_REMEMBERED:
            self._held.clear()
        self._held.update(dict.fromkeys(ids, PlainWork(*shape)))

    def pop(self, job_id: str) -> PlainWork | None:
        return self._held.pop(job_id, None)

    def was_used(self, signature: Recorded | Completed) -> bool:
        """Whether there were a few reports of this signature before."""
        if signature in self._used:
            return True
        if len(self._used) >= MAX_FORMS:
            self._used.clear()
        self._used.add(signature)
        return False

    def record(self, jobs: dict[str, PlainWork]) -> None:
        """Remember these jobs if the batch is committed."""
        self._recorded = jobs

    def committed(self) -> None:
        """The present batch is committed."""
        if self._recorded:
            self._held.update(self._recorded)
            self._recorded = {}

    def expect(self, asked: Any, found: Iterable[Candidate]) -> None:
        """Expect the shapes of these jobs for the next claim too, and earlier ones besides.

        Nothing is expected if one of the jobs was not plain, or if there are many shapes.
        """
        if len(self._last) > MAX_REMEMBERED:
            self._last.clear()
        earlier = self._last.pop(asked, ())
        classes = {(each.project, each.plain) for each in found}
        new = tuple(Shape(project, plain) for project, plain in classes if plain is not None)
        if len(new) == len(classes) <= MAX_SHAPES:
            self._last[asked] = tuple(dict.fromkeys((*new, *earlier)))[:MAX_SHAPES]

    def expected(self, asked: Any) -> Sequence[Shape]:
        return self._last.get(asked, ())


class SetPlan:
    """Which commands of a batch are executed as sets."""

    def __init__(
        self, sets: JobSets, requests: Sequence[CommandRequest], known: PlainClaims
    ) -> None:
        self.sets = sets
        self._requests = requests
        self._known = known
        self._found: dict[Signature, tuple[list[int], list[Member], list[str]]] = {}
        #: By place in the batch: a checkpoint, and the job after it.
        self._checkpoints: dict[int, tuple[NewCheckpoint, PlainWork]] = {}
        #: The form of the last checkpoint, with its signature. Most have the same one.
        self._form: tuple[Any, CheckpointForm | None] = (None, None)
        #: The places of reports about jobs that must be read first.
        self.unknown: list[int] = []
        many = len(requests) >= FEWEST
        for place, request in enumerate(requests):
            kind = type(request.command)
            if kind is c.CompleteRun or kind is c.RecordCheckpoint:
                self._find_report(place, request)
            elif many:
                found = plain_submission(request)
                if found is not None:
                    self._add(found[0], place, found[1])
        if len(self.unknown) < FEWEST:
            self.unknown = []
        known.record({})
        self._plan()

    def _plan(self) -> None:
        self.planned = list(self._planned())
        self.places = {place for each in self.planned for place in each.places}
        #: The ids of the tasks and of the jobs.
        self.tasks: set[str] = set()
        self.jobs: set[str] = set()
        for form, _, members, _ in self.planned:
            suffix = form.suffix
            self.jobs.update([member[0] + suffix for member in members])
            if form.example_task is not None:
                self.tasks.update([member[0] for member in members])
        ids = [new.row[0] for new, _ in self._checkpoints.values()]
        # Nothing must be read, so that a single one is a set too.
        self.records = bool(ids) and is_simple(ids)
        if self.records:
            self.places.update(self._checkpoints)
            self.jobs.update(ids)
        if len(self.jobs) != len(self.places):  # a job is named twice
            self.planned, self.records, self.places = [], False, set()

    def read(self) -> None:
        """Plan the reports about jobs that must be read first. They were locked before."""
        commands: list[Any] = [self._requests[place].command for place in self.unknown]
        runs = {row[0]: row for row in self.sets.running([each.grant[0] for each in commands])}
        names = [(each.grant[0], each.name) for each in commands if _is_checkpoint(each)]
        used = self.sets.recorded(names) if names else ()
        for place, command in zip(self.unknown, commands, strict=True):
            row = runs.get(command.grant[0])
            if row is None or not _is_held(row, command):
                continue
            found = PlainWork(row[1], row[3], row[4])
            if not _is_checkpoint(command):
                self._add_completion(place, command, found)
            elif (command.grant[0], command.name) not in used:
                self._add_checkpoint(place, command, found)
        self._plan()

    def _find_report(self, place: int, request: CommandRequest) -> None:
        command: Any
        command, actor, key, _, grant = request
        if key is not None or grant is not None or actor.root_id is not None:
            return
        if type(command) is c.CompleteRun and command.check is not None:
            return
        found = self._known.pop(command.grant[0])
        if found is None or (type(command) is c.CompleteRun and not self.sets.remote):
            self.unknown.append(place)
        elif command.grant[1] == 1:
            if isinstance(command, c.RecordCheckpoint):
                self._add_checkpoint(place, command, found)
            elif command.run_id == f"{command.grant[0]}-r1":
                self._add_completion(place, command, found)

    def _add_completion(self, place: int, command: c.CompleteRun, found: PlainWork) -> None:
        try:
            result = to_json(command.result)
        except Invalid:
            return
        if NULL in result:
            return
        job_id, _, nonce = command.grant
        project, plain, steps = found
        # The plain job of a task is its first one.
        root = job_id if plain[0] == "{" else job_id.removesuffix("-j1")
        actor = self._requests[place].actor.name
        ending = (command.exit_code, command.decision, steps)
        member = tuple.__new__(Member, (root, result, ""))
        self._add(Completed(actor, project, plain, *ending), place, member, nonce)

    def _add_checkpoint(self, place: int, command: c.RecordCheckpoint, found: PlainWork) -> None:
        project, plain, steps = found
        key = (self._requests[place].actor.name, project, plain, command.step)
        if key != self._form[0]:
            self._form = (key, self._checkpoint_form(Recorded(*key)))
        form, name = self._form[1], command.name
        if form is None or steps >= MAX_STEPS or "\0" in name:
            return
        try:
            texts = encode(name).decode(), encode(command.value).decode()
        except NOT_JSON:  # the general path refuses it
            return
        if NULL in texts[1]:
            return
        after = tuple.__new__(PlainWork, (project, plain, steps + 1))
        new = form.written(command.grant[0], CLAIMED + steps + 1, name, *texts)
        self._checkpoints[place] = (new, after)

    def _checkpoint_form(self, signature: Recorded) -> CheckpointForm | None:
        if len(self._requests) < FEWEST and not self._known.was_used(signature):
            return None
        return checkpoint_form_of(signature)

    def _add(self, signature: Signature, place: int, member: Member, nonce: str = "") -> None:
        found = self._found.get(signature)
        if found is None:
            found = self._found[signature] = ([], [], [])
        found[0].append(place)
        found[1].append(member)
        found[2].append(nonce)

    def _planned(self) -> Iterable[Planned]:
        for signature, (places, members, nonces) in self._found.items():
            if self._is_set(signature, len(members)) and is_simple(each[0] for each in members):
                form = form_of(signature)
                if form is not None:
                    yield Planned(form, places, members, nonces)

    def _is_set(self, signature: Signature, count: int) -> bool:
        """Whether there are enough equal commands, or a few completions like earlier ones."""
        return count >= FEWEST or (
            isinstance(signature, Completed) and self._known.was_used(signature)
        )

    def concerns(self, task_ids: Collection[str], job_ids: Collection[str]) -> bool:
        """Whether one of these tasks or jobs is in a set."""
        return not (self.tasks.isdisjoint(task_ids) and self.jobs.isdisjoint(job_ids))

    def execute(self) -> Mapping[int, CommandResult]:
        """Write the sets; returns the results by place."""
        failpoints.hit("save.before")
        results: dict[int, CommandResult] = {}
        if self.records:
            results.update(dict.fromkeys(self._checkpoints, CommandResult(None)))
            self._record()
        for form, places, members, nonces in self.planned:
            jobs = form.written()
            if form.job_versions[0]:
                self.sets.end(jobs, members, nonces)
                results.update(dict.fromkeys(places, CommandResult(form.answer)))
            else:
                self.sets.insert(jobs, members)
                results.update(
                    (place, CommandResult(member[0]))
                    for place, member in zip(places, members, strict=True)
                )
        return results

    def _record(self) -> None:
        commands: list[Any] = [self._requests[place].command for place in self._checkpoints]
        new = [each for each, _ in self._checkpoints.values()]
        self.sets.record(new, [command.grant[2] for command in commands])
        self._known.record({each.row[0]: job for each, job in self._checkpoints.values()})


def _is_checkpoint(command: Any) -> bool:
    return type(command) is c.RecordCheckpoint


def _is_held(row: PlainRun, command: c.CompleteRun | c.RecordCheckpoint) -> bool:
    """Whether the grant is of the job's only claim, and names its run if it names any."""
    job_id, fence, nonce = command.grant
    of_run = type(command) is not c.CompleteRun or command.run_id == f"{job_id}-r1"
    return fence == 1 and nonce == row[2] and of_run


# ---- claims ------------------------------------------------------------------------------------


def claim(
    tx: WriteTransaction,
    worker: str,
    nonce: str,
    candidates: Sequence[Candidate],
    lease_us: int,
    known: PlainClaims,
) -> Mapping[str, Claimed]:
    """Claim the plain jobs among these; returns them by id."""
    sets = tx.sets
    if sets is None or len(candidates) < FEWEST or not is_simple([nonce]):
        return {}
    classes: dict[Shape, list[str]] = {}
    for job_id, _, project, _, plain in candidates:
        if plain is not None:
            classes.setdefault(Shape(project, plain), []).append(job_id)
    claimed: dict[str, Claimed] = {}
    for shape, ids in classes.items():
        if len(ids) < FEWEST or not is_simple(ids):
            continue
        form = form_of(ToClaim(worker, *shape))
        if form is not None:
            failpoints.hit("claim.chosen")
            own = [each.removesuffix(form.suffix) for each in ids] if form.suffix else ids
            jobs, tasks = sets.claim(form.written(nonce), own, lease_us)
            now = tx.now()
            claimed.update(_Reader(form, now, nonce, now + lease_us).claimed(jobs, tasks))
            known.add(ids, shape)
    return claimed


def take(
    sets: JobSets,
    request: Any,
    expected: Sequence[Shape],
    lease_us: int,
    known: PlainClaims,
    shares: Shares,
) -> list[Claimed] | None:
    """Choose and claim jobs that are expected to be plain and of these shapes, and commit.

    None if there is other work or a limit: nothing was claimed then.
    """
    nonce = request.nonce
    found = {shape: form_of(ToClaim(request.worker, *shape)) for shape in expected}
    forms = {shape: form for shape, form in found.items() if form is not None}
    if len(forms) < len(expected) or not is_simple([nonce]):
        return None
    wanted = {shape: form.written(nonce) for shape, form in forms.items()}
    claim_filter = ClaimFilter(request.intents, request.projects, shares=shares)
    failpoints.hit("claim.chosen")
    taken = sets.take(wanted, claim_filter, request.limit, lease_us)
    if taken is None:
        return None
    claimed: list[Claimed] = []
    for (shape, form), (jobs, tasks) in zip(forms.items(), taken.sets, strict=True):
        own = dict(_Reader(form, taken.now, nonce, taken.now + lease_us).claimed(jobs, tasks))
        known.add(own, shape)
        claimed += own.values()
    if len(forms) > 1:
        claimed.sort(key=lambda each: (each.job.rank, each.job.project, each.job.id))
    return shares.first(claimed, len(claimed))


class _Reader:
    """Makes claimed jobs and their tasks from the rows of a set."""

    def __init__(self, form: Form, now: int, nonce: str, until: int) -> None:
        jobs = form.written(nonce)
        self._suffix = form.suffix
        self._rest = (form.answer.fence, nonce)
        self._until = until
        own = {**form.example._asdict(), **resolved(jobs.job, now)}
        self._job = _maker(Job, ClaimedRow._fields[:-1], own)
        task = form.example_task
        if task is not None:
            own = {**task._asdict(), **resolved(jobs.task, now)}
            self._task = _maker(Task, StartedRow._fields[:-1], own)

    def claimed(
        self, jobs: Sequence[ClaimedRow], tasks: Sequence[StartedRow]
    ) -> Iterable[tuple[str, Claimed]]:
        new, suffix, until, rest = tuple.__new__, self._suffix, self._until, self._rest
        started = {row[0]: row for row in tasks}
        for row in jobs:
            job_id = row[0] + suffix
            task, payload = None, row[-1]
            if suffix:
                own = started[row[0]]
                task, payload = self._task(own[0], own[:-1]), own[-1]
            job = self._job(row[0], row[:-1])
            grant = new(c.Grant, (job_id, *rest))
            yield job_id, new(Claimed, (grant, job, task, payload, until))


def _maker(
    kind: type[Any], given: Sequence[str], values: Mapping[str, Any]
) -> Callable[[str, tuple[Any, ...]], Any]:
    """A function that makes an entity from the id of the member and the given fields."""
    names = kind._fields
    rest = [name for name in names if name not in given]
    suffixes = {
        name: values[name].removeprefix(ID)
        for name in rest
        if isinstance(values[name], str) and values[name].startswith(ID)
    }
    fixed = tuple(values[name] for name in rest if name not in suffixes)
    order = [*given, *suffixes, *(name for name in rest if name not in suffixes)]
    pick = itemgetter(*(order.index(name) for name in names))
    ends = tuple(suffixes.values())
    new = tuple.__new__
    return lambda own_id, row: new(
        kind, pick((*row, *[own_id + end if end else own_id for end in ends], *fixed))
    )
