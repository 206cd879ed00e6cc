"""Checks of batches of equal jobs, which a store may write as sets."""

from collections.abc import Sequence
from typing import Any

from detent.engine import Claimed, CommandRequest
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.codec import event_digest
from detent.store.types import LoggedEvent
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import PERSON, claim, completion, do, job_of, names

#: More than one form of each field, and enough of each for a set.
FIELDS: list[dict[str, Any]] = [
    {"intent": intent, "priority": priority, "options": options}
    for intent in ("dig", "fill")
    for priority in ("P1", "P3")
    for options in ({}, {"retry": {"transient": 1}})
    for _ in range(5)
]


def submit_all(case: Case, fields: Sequence[dict[str, Any]]) -> list[str]:
    """Submit jobs in one batch; each has its number as payload."""
    commands = [
        c.SubmitJob(new_id(), "p", payload={"number": number}, **each)
        for number, each in enumerate(fields)
    ]
    requests = [CommandRequest(command, PERSON, fresh=True) for command in commands]
    return [str(getattr(result, "value", None)) for result in case.engine.execute(requests)]


def complete_all(case: Case, held: Sequence[Claimed]) -> list[Any]:
    """Complete jobs in one batch, each with its payload as result; returns values or codes."""
    reports = [completion(each, each.payload) for each in held]
    results = case.engine.execute([CommandRequest(report, PERSON) for report in reports])
    return [each.code if isinstance(each, DetentError) else each.value for each in results]


def history(case: Case, job_id: str) -> list[tuple[Any, ...]]:
    """The events of a job, without its id and their times."""
    with case.store.read() as view:
        return [
            (each.version, each.name, each.actor, each.data.replace(job_id, "ID"))
            for each in view.events(0, 100, stream=job_id)
        ]


def log(case: Case) -> list[LoggedEvent]:
    with case.store.read() as view:
        return list(view.events(0, 10_000))


@check
def equal_jobs_in_a_batch_keep_what_differs(case: Case) -> None:
    ids = submit_all(case, FIELDS)
    held = claim(case.engine, len(ids))
    assert sorted(each.grant.job_id for each in held) == sorted(ids)
    for each in held:
        assert each.job == job_of(case.store, each.grant.job_id)
        assert each.payload == {"number": ids.index(each.grant.job_id)}
    assert set(complete_all(case, held)) == {"completed"}
    for number, job_id in enumerate(ids):
        job = job_of(case.store, job_id)
        wanted = FIELDS[number]
        found = {name: getattr(job, name) for name in wanted}
        assert (found, job.result) == (wanted, {"number": number})


@check
def tasks_of_a_mixed_batch_keep_their_lifecycle(case: Case) -> None:
    """Tasks of both lifecycles and jobs without a task, twice: a store may expect the same."""
    for _ in range(2):
        commands: list[Any] = []
        for number in range(5):
            commands.append(c.SubmitJob(new_id(), "p", "dig", payload={"number": number}))
            for lifecycle in ("board", "review"):
                fields = (new_id(), "p", lifecycle, "dig", "cli")
                commands.append(c.SubmitTask(*fields, queue=True, payload={"number": number}))
        case.engine.execute([CommandRequest(each, PERSON, fresh=True) for each in commands])
        held = claim(case.engine, len(commands))
        assert [each.job.rank for each in held] == sorted(each.job.rank for each in held)
        assert set(complete_all(case, held)) == {"completed"}
        ends = {"board": ("done", "task_completed"), "review": ("ready", "task_ready")}
        with case.store.read() as view:
            for each in held:
                assert (each.job.task_id is None) == (each.task is None)
                for task, version in view.tasks([each.job.root_id]) if each.task else ():
                    events = names(view, task.id)
                    assert (task.state, events[-1]) == ends[task.lifecycle]
                    assert version == len(events)


@check
def tasks_of_a_batch_with_dependents_keep_their_versions(case: Case) -> None:
    """Tasks are claimed as a set, get dependents, and become ready."""
    tasks = [c.SubmitTask(new_id(), "p", "review", "dig", "cli", queue=True) for _ in range(5)]
    case.engine.execute([CommandRequest(task, PERSON, fresh=True) for task in tasks])
    held = claim(case.engine, 5)
    for task in tasks:
        after = (task.task_id,)
        do(case.engine, c.SubmitTask(new_id(), "p", "board", "dig", "cli", depends_on=after))
    assert set(complete_all(case, held)) == {"completed"}
    with case.store.read() as view:
        for found, version in view.tasks([each.task_id for each in tasks]):
            events = names(view, found.id)
            assert (found.state, events[-1], len(events)) == ("ready", "task_ready", version)


@check
def jobs_of_a_batch_have_the_log_of_a_single_job(case: Case) -> None:
    [alone] = submit_all(case, FIELDS[:1])
    complete_all(case, claim(case.engine))
    ids = submit_all(case, FIELDS[:5])
    complete_all(case, claim(case.engine, 5))
    wanted = [_without_nonce(each) for each in history(case, alone)]
    for number, job_id in enumerate(ids):
        found = [_without_nonce(each) for each in history(case, job_id)]
        assert str(found).replace(f'"number":{number}', '"number":0') == str(wanted)


def _without_nonce(event: tuple[Any, ...]) -> tuple[Any, ...]:
    return event[:3] if event[1] == "job_running" else event


@check
def equal_jobs_that_are_submitted_alone_keep_what_differs(case: Case) -> None:
    wanted = {}
    for fields in (*FIELDS[:1] * 3, FIELDS[5], *FIELDS[:2]):
        case.clock.advance(us=1_234_567)
        [job_id] = submit_all(case, [fields])
        wanted[job_id] = (case.clock(), fields["options"])
    for job_id, (at, options) in wanted.items():
        job = job_of(case.store, job_id)
        assert (job.created_at, job.queued_at, job.options) == (at, at, options)
        with case.store.read() as view:
            assert [each.at for each in view.events(0, 100, stream=job_id)] == [at]
    assert len({str(history(case, job_id)) for job_id in wanted}) == 2


@check
def the_id_of_a_job_that_was_submitted_alone_is_not_given_again(case: Case) -> None:
    ids = [submit_all(case, FIELDS[:1])[0] for _ in range(3)]
    complete_all(case, claim(case.engine, 1))
    before = log(case)
    for job_id in ids:
        again = c.SubmitJob(job_id, "p", payload={"number": 7}, **FIELDS[0])
        for fresh in (True, False):
            [answer] = case.engine.execute([CommandRequest(again, PERSON, fresh=fresh)])
            assert isinstance(answer, DetentError)
            assert answer.code == "job_exists"
    assert log(case) == before


@check
def a_refused_completion_in_a_batch_writes_nothing(case: Case) -> None:
    submit_all(case, FIELDS[:5] * 2)
    held = claim(case.engine, 10)
    stale = held[3]._replace(grant=held[3].grant._replace(fence=2))
    foreign = held[6]._replace(grant=held[6].grant._replace(nonce="of-another-claim"))
    answers = complete_all(case, [*held[:3], stale, *held[4:6], foreign, *held[7:]])
    refused = [number for number, answer in enumerate(answers) if answer == "stale_fence"]
    assert refused == [3, 6]
    assert answers.count("completed") == 8
    for number in refused:
        with case.store.read() as view:
            assert names(view, held[number].grant.job_id)[-1] == "run_started"
        assert job_of(case.store, held[number].grant.job_id).state == "running"
    assert complete_all(case, [held[3], held[6]]) == ["completed", "completed"]


def record_all(case: Case, held: Sequence[Claimed], name: str) -> list[Any]:
    """Record a checkpoint of each job in one batch, with its payload; returns values or codes."""
    reports = [c.RecordCheckpoint(each.grant, name, each.payload) for each in held]
    results = case.engine.execute([CommandRequest(report, PERSON) for report in reports])
    return [each.code if isinstance(each, DetentError) else each.value for each in results]


@check
def checkpoints_of_a_batch_have_the_log_of_single_ones(case: Case) -> None:
    submit_all(case, FIELDS[:5] * 2)
    held = claim(case.engine, 10)
    together, single = held[:5], held[5:]
    for name in ("step-0", 'step "1"', "step-2"):
        assert record_all(case, together, name) == [None] * 5
        for each in single:
            assert record_all(case, [each], name) == [None]
    assert set(complete_all(case, held)) == {"completed"}
    histories = []
    for each in held:
        job_id = each.grant.job_id
        number = f'"number":{each.payload["number"]}'
        histories.append(str(history(case, job_id)).replace(number, '"number":0'))
        with case.store.read() as view:
            found = [(one.name, one.kind, one.value) for one in view.job_checkpoints(job_id)]
            assert view.version_of(job_id) == 9
        names_of_steps = ("step-0", 'step "1"', "step-2")
        assert sorted(found) == sorted((name, "step", each.payload) for name in names_of_steps)
    assert len({_without_ids(each) for each in histories}) == 1


def _without_ids(text: str) -> str:
    return text.split("'run_started'", 1)[1]


@check
def a_refused_checkpoint_in_a_batch_writes_nothing(case: Case) -> None:
    submit_all(case, FIELDS[:5] * 2)
    held = claim(case.engine, 10)
    stale = held[3]._replace(grant=held[3].grant._replace(fence=2))
    foreign = held[6]._replace(grant=held[6].grant._replace(nonce="of-another-claim"))
    answers = record_all(case, [*held[:3], stale, *held[4:]], "step-0")
    assert (answers[3], answers.count(None)) == ("stale_fence", 9)
    answers = record_all(case, [*held[:6], foreign, *held[7:]], "step-1")
    assert (answers[6], answers.count(None)) == ("stale_fence", 9)
    assert [_recorded(case, each) for each in held] == [2, 2, 2, 1, 2, 2, 1, 2, 2, 2]
    assert record_all(case, [held[3], held[6]], "step-2") == [None, None]
    assert set(complete_all(case, held)) == {"completed"}


@check
def a_used_name_in_a_batch_of_checkpoints_is_refused_alone(case: Case) -> None:
    submit_all(case, FIELDS[:5] * 2)
    held = claim(case.engine, 10)
    assert record_all(case, held[:5], "step-0") == [None] * 5
    answers = record_all(case, held[4:], "step-0")
    assert (answers[0], answers.count(None)) == ("name_used_twice", 5)
    assert [_recorded(case, each) for each in held] == [1] * 10
    assert set(complete_all(case, held)) == {"completed"}


def _recorded(case: Case, each: Claimed) -> int:
    """The number of the checkpoints of a job, in its rows and in the log."""
    job_id = each.grant.job_id
    with case.store.read() as view:
        found = names(view, job_id).count("checkpoint_recorded")
        assert len(list(view.job_checkpoints(job_id))) == found
    return found


@check
def a_job_of_a_batch_is_deleted_alone(case: Case) -> None:
    ids = submit_all(case, FIELDS[:5])
    held = claim(case.engine, 5)
    record_all(case, held, "step-0")
    complete_all(case, held)
    blanks_one(case, c.DeleteJob(ids[2]), {ids[2]})
    blanks_one(case, c.DeleteJob(ids[3]), {ids[3]})


@check
def a_task_of_a_batch_is_deleted_alone(case: Case) -> None:
    """The events of a task and of its job are beside those of the other tasks of the batch."""
    tasks = [
        c.SubmitTask(new_id(), "p", "board", "dig", "cli", queue=True, payload={"number": number})
        for number in range(5)
    ]
    case.engine.execute([CommandRequest(task, PERSON, fresh=True) for task in tasks])
    held = claim(case.engine, 5)
    jobs = {each.job.task_id: each.job.id for each in held}
    complete_all(case, held)
    for number in (0, 3):
        gone = tasks[number].task_id
        blanks_one(case, c.DeleteTask(gone), {gone, jobs[gone]})


def blanks_one(case: Case, command: c.Command, streams: set[str]) -> None:
    """A deletion blanks the events of these streams, and changes no other event."""
    before = log(case)
    do(case.engine, command)
    after = log(case)[: len(before)]
    assert list(map(event_digest, after)) == list(map(event_digest, before))
    for one, other in zip(before, after, strict=True):
        assert (one == other) == (one.stream not in streams)
        assert one.stream not in streams or other.data == ""


@check
def equal_jobs_of_two_projects_keep_theirs(case: Case) -> None:
    """After a claim of one project, the next one has jobs of another."""
    submit_all(case, FIELDS[:5])
    complete_all(case, claim(case.engine, 5))
    commands = [
        c.SubmitJob(new_id(), project, "dig", payload={}) for project in ("q", "r") for _ in "12345"
    ]
    case.engine.execute([CommandRequest(each, PERSON, fresh=True) for each in commands])
    held = claim(case.engine, 10)
    assert set(complete_all(case, held)) == {"completed"}
    projects = {command.job_id: command.project for command in commands}
    for event in log(case):
        if event.stream in projects:
            assert event.project == projects[event.stream]
    for each in held:
        assert each.job.project == projects[each.job.id]


@check
def values_with_null_characters_are_kept_in_a_batch(case: Case) -> None:
    """A server may not read them inside JSON, so they are not written as sets."""
    value = {"text": "a\0b"}
    jobs = [c.SubmitJob(new_id(), "p", "dig", payload=value) for _ in range(5)]
    tasks = [
        c.SubmitTask(new_id(), "p", "board", "dig", "cli", queue=True, payload=value, title="t")
        for _ in range(5)
    ]
    case.engine.execute([CommandRequest(each, PERSON, fresh=True) for each in (*jobs, *tasks)])
    held = claim(case.engine, 10)
    assert [each.payload for each in held] == [value] * 10
    record_all(case, held, "step")
    assert set(complete_all(case, held)) == {"completed"}
    for each in held:
        assert job_of(case.store, each.job.id).result == value
        with case.store.read() as view:
            assert [found.value for found in view.job_checkpoints(each.job.id)] == [value]
