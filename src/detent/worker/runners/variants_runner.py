"""The variants runner: creates the variants of a task, waits for them, and takes over the chosen.

It executes the job of a task with the option `variants`. All it does is recorded, so that every run
of the job can continue where an earlier one was interrupted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from detent import failpoints
from detent.app.failures import Failure
from detent.app.retried_calls import retried
from detent.app.subtasks import KNOWN_CHILD, derived_id
from detent.errors import DetentError, Refused
from detent.kernel import commands as c
from detent.kernel.entities import Task
from detent.kernel.retry import FailureClass
from detent.kernel.variants import (
    OF_TASK,
    SHARED,
    VARIANT,
    VARIANTS,
    Chooser,
    chooser_of,
    chosen_of,
    intents_of,
)
from detent.operations.task_states import has_failed, is_done
from detent.operations.variant_facts import (
    VariantFacts,
    evidence_of,
    facts_of,
    runs_of_task,
    subtasks_of,
)
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.submission.options import OPTIONS
from detent.submission.request import MAX_TITLE
from detent.submission.subtask import subtask_of_task
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient

T = TypeVar("T")

#: How long it waits for a subtask whose end cannot be signalled again.
POLL_US = 5_000_000
#: How much of an error of a variant the error of the task shows.
LONGEST_ERROR = 300


class VariantsRunner:
    """Executes the jobs that create variants, whatever their intent is."""

    asynchronous = False
    stoppable = True

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        try:
            return VariantsRun(run, client).report()
        except Failure as failure:
            failed = run_outcome.Failed(failure.error_class, str(failure))
        except (DetentError, OSError, ValueError) as error:
            failed = run_outcome.of_exception(error)
        return run_outcome.failed(run.held.grant, run.run_id, failed)

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        return await client.run_blocking(lambda: self.execute(run, client))


class Progress(NamedTuple):
    """How far the variants of a task are."""

    task: Task
    variants: Sequence[VariantFacts]
    #: Subtasks that the task waits for, and the signals of their ends that it can wait for.
    unsettled: int
    needs: tuple[str, ...]
    now: int


class VariantsRun:
    """One run of a job that creates variants."""

    def __init__(self, run: ActiveRun, client: EngineClient) -> None:
        assert run.held.task is not None, "only a task has variants"
        self.run, self.client, self.task = run, client, run.held.task
        self.grant, self.job = run.held.grant, run.held.job
        self.chooser = chooser_of(self.job.options)

    def report(self) -> c.Report:
        """Do the next part of the job: suspend the run, or end it."""
        self._create()
        found = self._query(self._progress)
        if self._choose_by_policy(found):
            found = self._query(self._progress)
        chosen = chosen_of(found.task.options)
        if found.unsettled:
            return self._wait(found)
        if chosen is not None:
            return self._take_over(chosen["task_id"])
        if not any(each.done for each in found.variants):
            raise _all_failed(found.variants)
        return self._ask(found)

    # -- creating --------------------------------------------------------------------------

    def _create(self) -> None:
        """Create the variants in one transaction; those that exist are not created again."""
        number_of_set, title = self._number_of_set(), self._title()
        intents = intents_of(self.job.options, self.task.intent)
        commands = retried(
            lambda: [
                self._command(
                    number, intent, number_of_set, f"Variant {number} of {len(intents)}{title}"
                )
                for number, intent in enumerate(intents, 1)
            ],
            self.run.held.expired,
        )
        self.run.require_lease()
        for result in self.client.execute_all(commands, self.grant, self.run.held.expired):
            if isinstance(result, DetentError) and result.code not in KNOWN_CHILD:
                raise result
        failpoints.hit("subtask.submitted")

    def _number_of_set(self) -> int:
        """One more than the number of failed runs of the job: each retry has new variants."""
        failed = {"job_id": self.job.id, "state": ["failed", "timeout"]}
        counted = self._query(lambda view: view.count_by(Query("runs", failed), "state"))
        return 1 + sum(counted.values())

    def _title(self) -> str:
        rows = self._query(lambda view: view.page(Query("tasks", {"id": self.task.id}, limit=1)))
        title = str(rows[0]["title"] or "") if rows else ""
        return f": {title}" if title else ""

    def _command(self, number: int, intent: str, number_of_set: int, title: str) -> c.SubmitTask:
        given = {name: self.job.options[name] for name in self._passed_on(intent)}
        about = (intent, self.client.actor, given, self.task.lifecycle)
        context = self.run.intent.app.context(*about)
        context = replace(context, traceparent=self.run.traceparent)
        request = {"intent": intent, "title": title[:MAX_TITLE], "payload": self.run.payload}
        child = derived_id(self.job.id, f"variant:{number_of_set}:{number}")
        made = subtask_of_task(context, self.task, child, request, given)
        own = {name: each for name, each in made.options.items() if name not in OF_TASK}
        mark = {"number": number, "job_id": self.job.id, "set": number_of_set}
        return replace(made, options={**own, VARIANT: mark})

    def _passed_on(self, intent: str) -> list[str]:
        """The options of the task that a variant of this intent has too."""
        if intent != self.task.intent:
            return [name for name in SHARED if name in self.job.options]
        return [name for name in self.job.options if name in OPTIONS and name not in OF_TASK]

    # -- waiting ---------------------------------------------------------------------------

    def _progress(self, view: ReadTransaction) -> Progress:
        (task,) = (each for each, _ in view.tasks([self.task.id]))
        subtasks = subtasks_of(view, task)
        received = {each.name for each in view.signals([self.job.id])}
        unsettled = [
            each for each in subtasks if not is_done(view, each) and each.id not in task.settled
        ]
        needs = tuple(
            f"task:{each.id}"
            for each in unsettled
            if has_failed(view, each) or f"task:{each.id}" not in received
        )
        facts = facts_of(view, self.client.engine.store.blobs, task, subtasks)
        return Progress(task, facts, len(unsettled), needs, view.now())

    def _wait(self, found: Progress) -> c.Report:
        """Wait until all subtasks have ended; for a policy that chooses the first, until one has.

        A subtask that a person has retried has signalled its end before: it is checked again.
        """
        name = f"variants:{self.run.run_id}"
        if not found.needs:
            due_at = found.now + POLL_US
            return c.SuspendRun(self.grant, self.run.run_id, name, "timer", due_at=due_at)
        first = self.chooser is Chooser.FIRST_PASSING and chosen_of(found.task.options) is None
        detail = {"outcomes": True, **({"any": True} if first else {})}
        return c.SuspendRun(
            self.grant, self.run.run_id, name, "subtasks", found.needs, detail=detail
        )

    # -- choosing --------------------------------------------------------------------------

    def _choose_by_policy(self, found: Progress) -> bool:
        """Choose a variant that passes, if the policy can decide now."""
        if self.chooser is Chooser.PERSON or chosen_of(found.task.options) is not None:
            return False
        passing = [each for each in found.variants if each.passes]
        if not passing or (self.chooser is Chooser.CHEAPEST_PASSING and found.unsettled):
            return False
        best = min(passing, key=_cost if self.chooser is Chooser.CHEAPEST_PASSING else _end)
        command = c.ChooseVariant(self.task.id, best.task.id)
        try:
            self.client.execute(command, self.grant, self.run.held.expired)
        except Refused as refusal:
            if refusal.code != "already_chosen":
                raise
        return True

    def _ask(self, found: Progress) -> c.Report:
        """Ask a person which variant to choose."""
        done = [each for each in found.variants if each.done]
        numbers = [str(each.number) for each in done]
        reason = "" if self.chooser is Chooser.PERSON else f"No variant passes ({self.chooser}). "
        detail = {
            "text": f"{reason}Which variant is the best? "
            f"{len(done)} of {len(found.variants)} have ended well: {', '.join(numbers)}.",
            "options": numbers,
            VARIANTS: [each.task.id for each in done],
        }
        name = f"choice:{self.run.run_id}"
        return c.SuspendRun(self.grant, self.run.run_id, name, "question", detail=detail)

    # -- taking over -----------------------------------------------------------------------

    def _take_over(self, task_id: str) -> c.Report:
        """End the job with the result and the evidence of the chosen variant."""
        result, evidence = self._query(lambda view: _outcome_of(view, task_id))
        commands = [
            c.AddEvidence(
                self.grant,
                self.run.run_id,
                *(row[name] for name in ("file", "kind", "sha256", "size", "media_type")),
            )
            for row in evidence
        ]
        if commands:
            self.run.require_lease()
            for each in self.client.execute_all(commands, self.grant, self.run.held.expired):
                if isinstance(each, DetentError):
                    raise each
        return run_outcome.completed(self.grant, self.run.run_id, result)

    def _query(self, read: Callable[[ReadTransaction], T]) -> T:
        return self.client.query(read, self.run.held.expired)


def _outcome_of(view: ReadTransaction, task_id: str) -> tuple[Any, list[Mapping[str, Any]]]:
    """The result of a variant, and the newest evidence of each name."""
    (variant,) = (each for each, _ in view.tasks([task_id]))
    runs = [row["id"] for row in runs_of_task(view, variant)]
    latest = {row["file"]: row for row in evidence_of(view, runs)}
    (result,) = (job.result for job, _ in view.jobs([variant.job_id or ""]))
    return result, list(latest.values())


def _cost(each: VariantFacts) -> tuple[int, int]:
    return each.task.spent, each.number


def _end(each: VariantFacts) -> tuple[int, int]:
    return each.task.state_at, each.number


def _all_failed(variants: Sequence[VariantFacts]) -> Failure:
    """The failure of a task none of whose variants ended well; only a person runs it again."""
    errors = [(each.job.error if each.job is not None else None) or "" for each in variants]
    listed = "; ".join(
        f"variant {each.number} is {each.task.state}"
        + (f" ({error[:LONGEST_ERROR]})" if error else "")
        for each, error in zip(variants, errors, strict=True)
    )
    spent = any(
        each.job is not None and each.job.error_class == FailureClass.BUDGET for each in variants
    )
    kind = FailureClass.BUDGET if spent else FailureClass.NEEDS_USER
    return Failure(f"no variant ended well: {listed}", error_class=kind)
