"""Executes commands about plain jobs as sets: one decision and a few statements for many jobs.

A command is left to the general path if it is not about a plain job, if fewer than `FEWEST` equal
ones are in the batch, or if another command of the batch names the same job.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from detent import failpoints
from detent.engine.job_forms import Completed, Form, Submitted, ToClaim, form_of
from detent.engine.types import Claimed, CommandRequest, CommandResult
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.kernel.entities import Job
from detent.store.codec import from_json, to_json
from detent.store.commit_body import ID
from detent.store.job_sets import ClaimedRow, JobSets, Member, PlainRun
from detent.store.port import WriteTransaction
from detent.store.types import Candidate

#: Smaller sets gain nothing.
FEWEST = 4
#: Ids and nonces that are the same text inside JSON.
SIMPLE = re.compile(r"[A-Za-z0-9_.:-]+")
#: What ids are joined with to match all of them together.
SEPARATOR = "."

Signature = Submitted | Completed


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
        self.jobs = {member.id for each in self.planned for member in each.members}
        if len(self.jobs) != len(self.places):  # a job is named twice
            self.planned, self.places, self.jobs = [], set(), set()

    def _find_submissions(self, requests: Sequence[CommandRequest]) -> None:
        for place, (command, actor, key, fresh, grant) in enumerate(requests):
            if (
                type(command) is not c.SubmitJob
                or not fresh
                or key is not None
                or grant is not None
                or actor.root_id is not None
                or command.parent_job_id is not None
                or command.not_before
                or command.delay
            ):
                continue
            try:
                options = to_json(command.options) if command.options else "{}"
                member = Member(command.job_id, to_json(command.payload))
            except Invalid:
                continue
            self._add(
                Submitted(
                    actor.name,
                    command.project,
                    command.intent,
                    command.priority,
                    command.concurrency_key,
                    options,
                ),
                place,
                member,
            )

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
        for place, command in zip(places, commands, strict=True):
            job_id = command.grant[0]
            row = runs.get(job_id)
            if row is None or not _is_held(row, command):
                continue
            try:
                member = Member(job_id, to_json(command.result))
            except Invalid:
                continue
            actor = requests[place].actor.name
            ending = (command.exit_code, command.decision)
            self._add(Completed(actor, row.project, row.options, *ending), place, member)

    def _add(self, signature: Signature, place: int, member: Member) -> None:
        found = self._found.get(signature)
        if found is None:
            found = self._found[signature] = ([], [])
        found[0].append(place)
        found[1].append(member)

    def concerns(self, job_ids: Collection[str]) -> bool:
        """Whether one of these jobs is in a set."""
        return not self.jobs.isdisjoint(job_ids)

    def execute(self, now: int) -> Mapping[int, CommandResult]:
        """Write the sets; returns the results by place."""
        failpoints.hit("save.before")
        results: dict[int, CommandResult] = {}
        for form, places, members in self.planned:
            jobs = form.at(now)
            if form.before:
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
        if len(members) >= FEWEST and _simple(member[0] for member in members):
            form = form_of(signature)
            if form is not None:
                yield Planned(form, places, members)


def _is_held(row: PlainRun, command: c.CompleteRun) -> bool:
    """Whether the grant is of the job's only claim, and names its run."""
    job_id, fence, nonce = command.grant
    return fence == 1 and nonce == row[2] and command.run_id == f"{job_id}-r1"


def _simple(texts: Iterable[str]) -> bool:
    return SIMPLE.fullmatch(SEPARATOR.join(texts)) is not None


# ---- claims ------------------------------------------------------------------------------------


def claim(
    tx: WriteTransaction, worker: str, nonce: str, candidates: Sequence[Candidate], until: int
) -> Mapping[str, Claimed]:
    """Claim the plain jobs among these; returns them by id."""
    sets = tx.sets
    if sets is None or len(candidates) < FEWEST or not _simple([nonce]):
        return {}
    classes = Counter((each.project, each.options) for each in candidates if each.options)
    claimed: dict[str, Claimed] = {}
    for (project, options), count in classes.items():
        ids = [each[0] for each in candidates if each[2] == project and each[4] == options]
        if count >= FEWEST and options is not None and _simple(ids):
            form = form_of(ToClaim(worker, project, options))
            if form is not None:
                failpoints.hit("claim.chosen")
                rows = sets.claim(form.at(tx.now(), nonce), ids, until)
                claimed.update(_claimed(form, tx.now(), nonce, options, until, rows))
    return claimed


def _claimed(
    form: Form, now: int, nonce: str, options: str, until: int, rows: Sequence[ClaimedRow]
) -> Iterable[tuple[str, Claimed]]:
    job_of = _reader(form, now, nonce, from_json(options))
    fence = form.answer.fence
    new = tuple.__new__
    for row in rows:
        grant = new(c.Grant, (row[0], fence, nonce))
        yield row[0], new(Claimed, (grant, job_of(row), None, row[-1], until))


def _reader(
    form: Form, now: int, nonce: str, options: Mapping[str, Any]
) -> Callable[[ClaimedRow], Job]:
    """A function that makes a claimed job from its row."""
    changed = form.at(now, nonce).job
    values = {**form.example._asdict(), **changed, "options": options}
    names = list(ClaimedRow._fields[:-1])
    run = values["run_id"].removeprefix(ID)
    own = {"root_id": "id"}
    constants = [name for name in Job._fields if name not in names and name not in own]
    constants.remove("run_id")
    order = [*names, "payload", "run_id", *constants]
    pick = itemgetter(*(order.index(own.get(name, name)) for name in Job._fields))
    fixed = tuple(values[name] for name in constants)
    new = tuple.__new__
    return lambda row: new(Job, pick((*row, row[0] + run, *fixed)))
