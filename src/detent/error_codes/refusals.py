"""Error codes of requests that are valid and that the rules of a lifecycle do not allow now."""

from collections.abc import Mapping

from detent.error_codes.code import Code


def _refused(meaning: str, why: str, remedy: str) -> Code:
    """The request conflicts with the present state."""
    return Code(409, 1, meaning, why, remedy)


REFUSALS: Mapping[str, Code] = {
    "refused": _refused(
        "The request conflicts with the present state.",
        "The rules do not allow this action in the present state. Nothing was changed.",
        "Check the state and the legal actions with `detent why ID`.",
    ),
    "illegal_transition": _refused(
        "The event is not legal in the present state.",
        "The lifecycle has no transition for this event from this state. Nothing was changed.",
        "Check the state and the legal actions with `detent why ID`.",
    ),
    "stale_fence": _refused(
        "The worker's claim is no longer valid: its fence is out of date.",
        "The lease expired, another worker claimed the job, or the job ended. Nothing was changed.",
        "Stop working on this job. The worker with the newest fence continues it.",
    ),
    "idempotency_conflict": _refused(
        "The idempotency key was used before for a different submission.",
        "A key returns the first result for an identical submission. A different one is an error.",
        "Repeat the submission unchanged, or use a new key for new work.",
    ),
    "version_conflict": _refused(
        "The object was changed after you read it.",
        "A change is accepted only for the version that it was made for. Nothing was changed.",
        "Read the object again, then repeat the change.",
    ),
    "diff_changed": _refused(
        "The diff under review is not the one that the request names.",
        "A verdict and a comment apply to one diff, named by its SHA-256. Nothing was changed.",
        "Review what has changed, then repeat the request with the SHA-256 of the current diff.",
    ),
    "no_diff": _refused(
        "The task has no diff to review.",
        "None of its runs has left the evidence file changes.diff, or its content was deleted.",
        "Check the evidence of the task with `detent evidence list ID`.",
    ),
    "nothing_requested": _refused(
        "The request for changes says nothing about what to change.",
        "It has no comment, and the task has no open comment on a line. Nothing was changed.",
        "Add a comment on a line, or give a comment with the request.",
    ),
    "comment_exists": _refused(
        "A published comment or reply has this id.",
        "A published draft keeps its id, and an id is used once in a task.",
        "Save the draft under another id.",
    ),
    "task_exists": _refused(
        "A task with this id already exists.",
        "An id is never used twice, not even after the task was deleted.",
        "Use another id, or change the existing task.",
    ),
    "job_exists": _refused(
        "A job with this id already exists.",
        "An id is never used twice, not even after the job was deleted.",
        "Use another id, or change the existing job.",
    ),
    "parent_ended": _refused(
        "The parent has ended and accepts no more subtasks.",
        "A task or job that has ended does not change any more.",
        "Submit the work without a parent.",
    ),
    "task_ended": _refused(
        "The task has ended and cannot be changed.",
        "A task that has ended does not change any more.",
        "Submit a new task.",
    ),
    "job_ended": _refused(
        "The job has ended and accepts no more signals.",
        "A job that has ended does not change any more.",
        "Check the job with `detent show ID`: it may have completed without the signal.",
    ),
    "token_exists": _refused(
        "A token with this name already exists.",
        "The log identifies the holder of a token by its name, so a name is used once.",
        "Use another name, or revoke the existing token with `detent tokens revoke NAME`.",
    ),
    "history_removed": _refused(
        "The history was removed from the log.",
        "Retention or `detent db trim` has removed the content of its events.",
        "Use an export or a backup that was made before.",
    ),
    "not_a_run": _refused(
        "The token does not belong to a run.",
        "Only the token that detent gives to a run when it starts may use this endpoint.",
        "Use the operations for other tokens; the OpenAPI document of the gateway lists them.",
    ),
    "already_asked": _refused(
        "The run has already asked a different question.",
        "A run ends with one question. The next run gets the answer.",
        "End the run. Ask the next question after the answer has come.",
    ),
    "bad_archive": _refused(
        "The archive is invalid.",
        "It is damaged, was changed, or was not made by `detent export`. Nothing was stored.",
        "Export the task again. `detent export --verify FILE` lists what is wrong.",
    ),
    "evidence_exists": _refused(
        "The run already has evidence with this name.",
        "Evidence can be added and is never replaced.",
        "Use another name.",
    ),
    "open_question": _refused(
        "The task has an open question.",
        "The task continues only after the question was answered.",
        "Answer it with `detent answer ID …`, or cancel the task.",
    ),
    "no_question": _refused(
        "The task has no open question.",
        "The question was answered, has expired, or was never asked.",
        "Check the state of the task with `detent why ID`.",
    ),
    "already_answered": _refused(
        "The question already has a different answer.",
        "The first answer counts; the work has continued with it.",
        "Check the first answer, which the error contains.",
    ),
    "not_an_option": _refused(
        "The answer is not one of the question's options.",
        "The question lists its options and does not accept free text.",
        "Give one of the options that the error lists.",
    ),
    "already_accepted": _refused(
        "The task was accepted, and its declared action has not ended.",
        "The merge or push that its options declare runs before the acceptance counts. Until it "
        "has ended, no other verdict is possible.",
        "Wait until it has ended; `detent why ID` shows its progress. Or cancel the task.",
    ),
    "no_variants": _refused(
        "The task has no variants that could be chosen now.",
        "Only a task with the option `variants` has variants, and one of them is chosen while the "
        "task waits for them.",
        "`detent show ID` shows the state of the task; `detent submit --variants 3` makes a task "
        "with variants.",
    ),
    "variant_not_done": _refused(
        "This variant has not ended well, so it has no result that could be chosen.",
        "It runs, failed or was cancelled.",
        "Wait for it, retry it, or choose another variant: `detent variants ID` compares them.",
    ),
    "already_chosen": _refused(
        "Another variant of the task was chosen before.",
        "A choice is final: the other variants are cancelled, and the task continues the work of "
        "the chosen one.",
        "Review the task. To discard the choice, cancel the task and submit it again.",
    ),
    "no_action": _refused(
        "The task declares no action that runs when it is accepted.",
        '`task_accepting` is the acceptance of a task with `on_accept = "merge"` or `"push"`.',
        "Accept the task with `detent accept ID`.",
    ),
    "rounds_used": _refused(
        "The task was rejected as often as its limit allows.",
        "`max_rounds` limits the number of review rounds of this task.",
        "Raise `max_rounds`, or cancel the task.",
    ),
    "not_for_people": _refused(
        "People do not send this event.",
        "The lifecycle's row names others who send it: a worker, the keeper or the engine.",
        "Send one of the events that `detent why ID` lists.",
    ),
    "version_exists": _refused(
        "This version of the lifecycle exists with other content, or a newer one exists.",
        "A version never changes, because tasks follow it.",
        "Give the document a higher version.",
    ),
    "lifecycle_name_taken": _refused(
        "A lifecycle of detent has this name.",
        "The lifecycles that are shipped with detent do not change.",
        "Give the document another name.",
    ),
    "lifecycle_in_use": _refused(
        "Tasks have this lifecycle.",
        "A lifecycle is removed only when no task needs it.",
        "Delete the tasks, or keep the lifecycle.",
    ),
    "would_strand": _refused(
        "The new version of the lifecycle has no state in which the task could continue.",
        "The task's state was removed, and `migrate` names none in the same phase.",
        "Install a version whose `migrate` names one.",
    ),
    "storage_quota": _refused(
        "The project has reached its quota of stored bytes.",
        "`stored_bytes` of the project limits payloads and evidence. Nothing was stored.",
        "Delete finished tasks (`detent delete ID`), or have an operator raise the quota: "
        "`detent projects quota NAME --storage 10GiB`.",
    ),
    "budget_too_small": _refused(
        "The new budget is not above the amount already spent.",
        "A budget covers everything that the task has spent so far.",
        "Set a budget above the amount spent, which `detent costs ID` shows.",
    ),
    "budget_spent": _refused(
        "The budget of the task, or of a task above it, is spent.",
        "The task would be stopped again immediately.",
        "`detent why ID` names the task whose budget is spent. Raise it, or cancel the task.",
    ),
    "dependency_failed": _refused(
        "A task that this task depends on has failed.",
        "The task would fail again immediately.",
        "`detent why ID` shows whether the failed task can be retried.",
    ),
    "dependency_open": _refused(
        "The tasks that this task depends on are not done yet.",
        "The task starts when all of them are done.",
        "Wait, or cancel the task.",
    ),
    "still_needed": _refused(
        "The task or job cannot be deleted while it is needed.",
        "It has not ended, or other work that has not ended depends on it.",
        "End or delete what the error lists first.",
    ),
    "not_dismissible": _refused(
        "The task is not a subtask that failed.",
        "Only a subtask that failed, timed out, was cancelled or exceeded its budget is dismissed.",
        "Check the state and the legal actions with `detent why ID`.",
    ),
    "held_by_worker": _refused(
        "A worker holds the job.",
        "Only the worker that claimed a job can report its result.",
        "Wait for the worker, or cancel the job. `detent workers` shows which worker holds it.",
    ),
    "name_used_twice": _refused(
        "The name of a durable step, an effect or a wait was used twice in one job.",
        "Recorded results are found by name, so a name must be unique within a job.",
        "Use a different name for each; in a loop, put the index into the name.",
    ),
    "not_claimable": _refused(
        "The job cannot be claimed now.",
        "It is not queued, is not due yet, waits for a dependency, or has a plan.",
        "Claim another job.",
    ),
    "not_due": _refused(
        "No timer of the job is due.",
        "The time has not come, or another process has handled the timer.",
        "Do nothing: the keeper repeats the check safely.",
    ),
    "not_cancelling": _refused(
        "No cancellation of the job was requested.",
        "A worker confirms a cancellation only after it was requested.",
        "Report how the run ended instead.",
    ),
    "step_not_startable": _refused(
        "The plan step cannot start now.",
        "It waits for other steps, a person or a time, or has already started.",
        "Start one of the steps that the error lists.",
    ),
    "step_can_start": _refused(
        "The job cannot be suspended: one of its plan steps can start.",
        "A resource may have become free after the worker checked.",
        "Start the step that the error names.",
    ),
    "no_resource": _refused(
        "No matching resource is free.",
        "Every matching resource is in use, unhealthy, or excluded for this step.",
        "Wait: the job continues when one is free. `detent resources` shows who holds them.",
    ),
    "still_running": _refused(
        "The job has runs that have not ended.",
        "A job is suspended or gets a new plan only when none of its steps is running.",
        "Report the end of its runs first.",
    ),
    "plan_not_wanted": _refused(
        "The job has a plan and did not request another.",
        "A new plan version is accepted only after a critic has asked for one.",
        "Continue with the present plan.",
    ),
    "nothing_to_wait_for": _refused(
        "The plan has nothing to wait for.",
        "Every step of the plan has ended or can start.",
        "Start a step, or check the job with `detent show ID`.",
    ),
    "only_local": _refused(
        "The command works only on the installation of the machine on which it is run.",
        "An option, an environment variable or a context names a gateway on another machine.",
        "Run the command on that machine. To use this machine's installation, add --local.",
    ),
}
