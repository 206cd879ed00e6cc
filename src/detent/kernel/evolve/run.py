"""How events change a run."""

from detent.errors import Broken
from detent.kernel import events as e
from detent.kernel.entities import Run
from detent.kernel.evolve.table import CHANGES, RUN, next_state, on


def evolve_run(run: Run | None, record: e.Record) -> Run:
    if run is None:
        return run_queued(record)
    event = record.event
    state = next_state(RUN, run.state, event)
    changed: Run = CHANGES[type(event)](run, event, record.at, state)
    return changed


def run_queued(record: e.Record) -> Run:
    event = record.event
    if not isinstance(event, e.RunQueued) or record.subject is None:
        raise Broken(f"the run {record.subject} begins with {event.name}, not with run_queued")
    return Run(
        id=record.subject,
        job_id=record.stream,
        state="queued",
        attempt=event.attempt,
        fence=event.fence,
        worker=event.worker,
        queued_at=record.at,
        step=event.step,
    )


@on(e.RunStarted)
def _run_started(run: Run, event: e.RunStarted, at: int, state: str) -> Run:
    return run._replace(state=state, started_at=at)


@on(e.RunSucceeded)
def _run_succeeded(run: Run, event: e.RunSucceeded, at: int, state: str) -> Run:
    ended = run._replace(state=state, ended_at=at, outcome=event.outcome, reason=event.reason)
    return ended._replace(exit_code=event.exit_code)


@on(e.RunFailed)
def _run_failed(run: Run, event: e.RunFailed, at: int, state: str) -> Run:
    return run._replace(
        state=state,
        ended_at=at,
        exit_code=event.exit_code,
        error_class=event.error_class,
        error=event.error,
    )


@on(e.RunTimedOut)
def _run_timed_out(run: Run, event: e.RunTimedOut, at: int, state: str) -> Run:
    return run._replace(
        state=state, ended_at=at, outcome=event.limit, error_class="timeout", error=event.error
    )


@on(e.RunCancelled)
def _run_cancelled(run: Run, event: e.RunCancelled, at: int, state: str) -> Run:
    return run._replace(state=state, ended_at=at, outcome=event.reason)


@on(e.RunJoined)
def _run_joined(run: Run, event: e.RunJoined, at: int, state: str) -> Run:
    return run._replace(session_id=event.session_id)


@on(e.RunCharged)
def _run_charged(run: Run, event: e.RunCharged, at: int, state: str) -> Run:
    return run._replace(cost=event.cost, tokens_in=event.tokens_in, tokens_out=event.tokens_out)


@on(e.RunReserved)
def _run_reserved(run: Run, event: e.RunReserved, at: int, state: str) -> Run:
    return run._replace(reserved=event.amount)


@on(e.RunProgressed)
def _run_progressed(run: Run, event: e.RunProgressed, at: int, state: str) -> Run:
    return run._replace(progress=event.progress, note=event.note)


@on(e.EvidenceAdded)
def _evidence_added(run: Run, event: e.EvidenceAdded, at: int, state: str) -> Run:
    return run
