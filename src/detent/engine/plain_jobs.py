"""Executes commands about plain work as sets: one decision and a few statements for many jobs.

A command is left to the general path if it is not about a plain job, if fewer than `FEWEST` equal
ones are in the batch, or if another command of the batch names the same job.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine.job_forms import Completed, Form, Signature, ToClaim, form_of
from detent.engine.plain_submissions import is_simple, plain_submission
from detent.engine.types import Claimed, CommandRequest, CommandResult
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.store.codec import to_json
from detent.store.commit_body import ID
from detent.store.job_sets import ClaimedRow, JobSets, Member, PlainRun, StartedRow, resolved
from detent.store.port import WriteTransaction
from detent.store.types import Candidate

#: Smaller sets gain nothing.
FEWEST = 4


class Planned(NamedTuple):
    """Commands of one signature: their places in the batch, and the jobs with their values."""

    form: Form
    places: Sequence[int]
    members: Sequence[Member]


class SetPlan:
    """Which commands of a batch are executed as sets."""

    def __init__(self, sets: JobSets, requests: Sequence[CommandRequest]) -> None:
        self.sets = sets
        self._found: dict[Signature, tuple[list[int], list[Member]]] = {}
        if len(requests) >= FEWEST:
            self._find_submissions(requests)
            self._find_completions(requests)
        self.planned = list(_planned(self._found))
        self.places = {place for each in self.planned for place in each.places}
        #: The ids of the tasks and of the jobs.
        self.tasks: set[str] = set()
        self.jobs: set[str] = set()
        for form, _, members in self.planned:
            suffix = form.suffix
            self.jobs.update([member[0] + suffix for member in members])
            if form.example_task is not None:
                self.tasks.update([member[0] for member in members])
        if len(self.jobs) != len(self.places):  # a job is named twice
            self.planned = []

    def _find_submissions(self, requests: Sequence[CommandRequest]) -> None:
        for place, request in enumerate(requests):
            found = plain_submission(request)
            if found is not None:
                self._add(found[0], place, found[1])

    def _find_completions(self, requests: Sequence[CommandRequest]) -> None:
        places = [
            place
            for place, (command, actor, key, _, grant) in enumerate(requests)
            if type(command) is c.CompleteRun
            and key is None
            and grant is None
            and actor.root_id is None
        ]
        if len(places) < FEWEST:
            return
        commands: list[Any] = [requests[place].command for place in places]
        runs = {row[0]: row for row in self.sets.running([each.grant[0] for each in commands])}
        new = tuple.__new__
        for place, command in zip(places, commands, strict=True):
            job_id = command.grant[0]
            row = runs.get(job_id)
            if row is None or not _is_held(row, command):
                continue
            try:
                result = to_json(command.result)
            except Invalid:
                continue
            # The plain job of a task is its first one.
            root = job_id if row[3][0] == "{" else job_id.removesuffix("-j1")
            actor = requests[place].actor.name
            ending = (command.exit_code, command.decision)
            self._add(
                Completed(actor, row[1], row[3], *ending), place, new(Member, (root, result, ""))
            )

    def _add(self, signature: Signature, place: int, member: Member) -> None:
        found = self._found.get(signature)
        if found is None:
            found = self._found[signature] = ([], [])
        found[0].append(place)
        found[1].append(member)

    def concerns(self, task_ids: Collection[str], job_ids: Collection[str]) -> bool:
        """Whether one of these tasks or jobs is in a set."""
        return not (self.tasks.isdisjoint(task_ids) and self.jobs.isdisjoint(job_ids))

    def execute(self) -> Mapping[int, CommandResult]:
        """Write the sets; returns the results by place."""
        failpoints.hit("save.before")
        results: dict[int, CommandResult] = {}
        for form, places, members in self.planned:
            jobs = form.written()
            if form.job_versions[0]:
                self.sets.end(jobs, members)
                results.update(dict.fromkeys(places, CommandResult(form.answer)))
            else:
                self.sets.insert(jobs, members)
                results.update(
                    (place, CommandResult(member[0]))
                    for place, member in zip(places, members, strict=True)
                )
        return results


def _planned(found: Mapping[Signature, tuple[list[int], list[Member]]]) -> Iterable[Planned]:
    for signature, (places, members) in found.items():
        if len(members) >= FEWEST and is_simple(member[0] for member in members):
            form = form_of(signature)
            if form is not None:
                yield Planned(form, places, members)


def _is_held(row: PlainRun, command: c.CompleteRun) -> bool:
    """Whether the grant is of the job's only claim, and names its run."""
    job_id, fence, nonce = command.grant
    return fence == 1 and nonce == row[2] and command.run_id == f"{job_id}-r1"


# ---- claims ------------------------------------------------------------------------------------


def claim(
    tx: WriteTransaction, worker: str, nonce: str, candidates: Sequence[Candidate], until: int
) -> Mapping[str, Claimed]:
    """Claim the plain jobs among these; returns them by id."""
    sets = tx.sets
    if sets is None or len(candidates) < FEWEST or not is_simple([nonce]):
        return {}
    classes: dict[tuple[str, str], list[str]] = {}
    for job_id, _, project, _, plain in candidates:
        if plain is not None:
            classes.setdefault((project, plain), []).append(job_id)
    claimed: dict[str, Claimed] = {}
    for (project, plain), ids in classes.items():
        if len(ids) < FEWEST or not is_simple(ids):
            continue
        form = form_of(ToClaim(worker, project, plain))
        if form is not None:
            failpoints.hit("claim.chosen")
            own = [each.removesuffix(form.suffix) for each in ids] if form.suffix else ids
            jobs, tasks = sets.claim(form.written(nonce), own, until)
            claimed.update(_Reader(form, tx.now(), nonce, until).claimed(jobs, tasks))
    return claimed


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
