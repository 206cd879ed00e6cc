"""Evidence that an intent requires: a run that ends well without it has failed. Reads only."""

from detent.kernel import commands as c
from detent.kernel.retry import FailureClass
from detent.store.types import Query
from detent.worker import run_outcome
from detent.worker.active_run import Attempt
from detent.worker.engine_client import Line

MOST = 1_000


def required_of(attempt: Attempt) -> tuple[str, ...]:
    """What the intent requires, and what the submission requires beside it; nothing lowers it."""
    declared = attempt.intent.declared.options.get("requires_evidence", ())
    return tuple(dict.fromkeys([*declared, *_asked(attempt)]))


def _asked(attempt: Attempt) -> list[str]:
    """A plan's options are about the plan; its steps have what their own intents say."""
    asked = attempt.hold.job.options.get("requires_evidence", ()) if attempt.step is None else ()
    return [str(each) for each in asked]


def with_evidence(attempt: Attempt, report: c.CompleteRun, line: Line) -> c.Report:
    """The report, or a failure that names what is missing."""
    required = required_of(attempt)
    missing = [kind for kind in required if kind not in _left(attempt, line)] if required else []
    if not missing:
        return report
    text = (
        f"the work ended well, but left no evidence of type {', '.join(missing)}, "
        f"which {attempt.intent.name} requires"
    )
    failed = run_outcome.Failed(FailureClass.ERROR, text, report.exit_code)
    return run_outcome.failed(report.grant, report.run_id, failed)


def _left(attempt: Attempt, line: Line) -> set[str]:
    """Types of evidence of this attempt: going on after a wait is a run of the same one."""
    step = None if attempt.step is None else attempt.step.name
    same = {"job_id": attempt.hold.job.id, "attempt": attempt.number, "step": step}
    with line.read() as view:
        runs = [row["id"] for row in view.page(Query("runs", same, "queued_at", limit=MOST))]
        rows = view.page(Query("evidence", {"run_id": runs}, "at", limit=MOST)) if runs else ()
    return {str(row["kind"]) for row in rows}
