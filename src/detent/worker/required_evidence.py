"""Required evidence: a run that succeeds without what its intent requires is reported as failed."""

from detent.kernel import commands as c
from detent.kernel.acceptance import is_acceptance
from detent.kernel.evidence_types import names_of
from detent.kernel.retry import FailureClass
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient

MAX_ROWS = 1_000


def required_of(run: ActiveRun) -> tuple[str, ...]:
    """The evidence types that the intent requires, and those that the submission adds.

    They are about the work, not about an acceptance of it.
    """
    if is_acceptance(run.held.job):
        return ()
    declared = run.intent.declared.options.get("requires_evidence", ())
    if not declared and "requires_evidence" not in run.held.job.options:
        return ()
    return tuple(dict.fromkeys([*declared, *_requested(run)]))


def _requested(run: ActiveRun) -> list[str]:
    """Of the job's options. Plan steps have those of their intents only."""
    requested = run.held.job.options.get("requires_evidence", ()) if run.whole_job else ()
    return [str(each) for each in requested]


def with_evidence(run: ActiveRun, report: c.CompleteRun, client: EngineClient) -> c.Report:
    """The report; or a failed report that names the missing evidence."""
    required = required_of(run)
    missing = [kind for kind in required if kind not in _left(run, client)] if required else []
    if not missing:
        return report
    names = [name for kind in missing for name in names_of(kind)]
    text = (
        f"the run succeeded, but left no evidence of type {', '.join(missing)}, "
        f"which {run.intent.name} requires"
    ) + (f"; files with these names have the type: {', '.join(names)}" if names else "")
    failed = run_outcome.Failed(FailureClass.ERROR, text, report.exit_code)
    return run_outcome.failed(report.grant, report.run_id, failed)


def _left(run: ActiveRun, client: EngineClient) -> set[str]:
    """The evidence types of all runs of this attempt: it has several if it has waited."""
    step = None if run.step is None else run.step.name
    same = {"job_id": run.held.job.id, "attempt": run.attempt, "step": step}

    def kinds(view: ReadTransaction) -> set[str]:
        runs = [row["id"] for row in view.page(Query("runs", same, "queued_at", limit=MAX_ROWS))]
        rows = view.page(Query("evidence", {"run_id": runs}, "at", limit=MAX_ROWS)) if runs else ()
        return {str(row["kind"]) for row in rows}

    return client.query(kinds, run.held.expired)
