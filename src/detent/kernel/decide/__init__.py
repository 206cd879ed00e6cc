"""Decides commands: `decide(world, command, now, actor)` returns a draft with events, or refuses.

Pure. There is one function for each command; the couplings add the events that follow from others.
"""

from collections.abc import Callable, Mapping
from typing import Any

from detent.kernel import commands as c
from detent.kernel.commands import lifecycle_commands
from detent.kernel.commands import limit_commands as lc
from detent.kernel.commands import review_commands as rc
from detent.kernel.couplings import COUPLINGS
from detent.kernel.decide import (
    comments,
    control,
    declared_events,
    edit,
    lifecycles,
    limits,
    plans,
    review,
    submit,
    timers,
    variant_choice,
    worker_reports,
)
from detent.kernel.draft import Couplings, Draft
from detent.kernel.world import World

HANDLERS: Mapping[type[c.Command], Callable[[Draft, Any], Any]] = {
    c.SubmitTask: submit.submit_task,
    c.SubmitJob: submit.submit_job,
    c.ForkJob: submit.fork_job,
    c.QueueTask: control.queue_task,
    c.RetryTask: control.retry_task,
    c.ResumeTask: control.resume_task,
    c.CancelTask: control.cancel_task,
    c.AcceptTask: review.accept_task,
    c.RejectTask: review.reject_task,
    c.AnswerTask: review.answer_task,
    c.ChooseVariant: variant_choice.choose_variant,
    c.SendEvent: declared_events.send_event,
    c.MigrateTask: lifecycles.migrate_task,
    c.DismissSubtask: control.dismiss_subtask,
    c.UnblockTask: control.unblock_task,
    c.EditTask: edit.edit_task,
    c.AssignTask: edit.assign_task,
    c.RaiseBudget: edit.raise_budget,
    c.DeleteTask: edit.delete_task,
    c.CancelJob: control.cancel_job,
    c.RetryJob: control.retry_job,
    c.AnswerJob: review.answer_job,
    c.DeleteJob: edit.delete_job,
    c.SendSignal: review.send_signal,
    c.AttachEvidence: edit.attach_evidence,
    c.ClaimJob: worker_reports.claim_job,
    c.RecordCheckpoint: worker_reports.record_checkpoint,
    c.BeginEffect: worker_reports.begin_effect,
    c.RequestPermission: worker_reports.request_permission,
    c.SuspendRun: worker_reports.suspend_run,
    c.CompleteRun: worker_reports.complete_run,
    c.FailRun: worker_reports.fail_run,
    c.TimeOutRun: worker_reports.time_out_run,
    c.ConfirmCancel: worker_reports.confirm_cancel,
    c.HandBack: worker_reports.hand_back,
    c.ChargeRun: worker_reports.charge_run,
    c.ReserveFunds: worker_reports.reserve_funds,
    c.ReportProgress: worker_reports.report_progress,
    c.AddEvidence: worker_reports.add_evidence,
    c.OpenSession: worker_reports.open_session,
    c.RecordPlan: plans.record_plan,
    c.FailPlan: plans.fail_plan,
    c.StartStep: plans.start_step,
    c.RestPlan: plans.rest_plan,
    c.ReclaimJob: timers.reclaim_job,
    c.RequeueJob: timers.requeue_job,
    c.WakeJob: timers.wake_job,
    c.ExpireJob: timers.expire_job,
    c.EndHold: timers.end_hold,
    c.CheckTask: timers.check_task,
    c.FireTimer: declared_events.fire_timer,
    rc.AddComments: comments.add_comments,
    rc.ResolveComment: comments.resolve_comment,
    rc.ReopenComment: comments.reopen_comment,
    rc.RequestChanges: comments.request_changes,
    lc.SetPause: limits.set_pause,
    lc.EndPause: limits.end_pause,
    lc.ExpirePause: limits.expire_pause,
    lc.SetLimit: limits.set_limit,
    lc.EndLimit: limits.end_limit,
    lifecycle_commands.InstallLifecycle: lifecycles.install,
    lifecycle_commands.RemoveLifecycle: lifecycles.remove,
}


def decide(
    world: World,
    command: c.Command,
    now: int,
    actor: c.Actor,
    couplings: Couplings = COUPLINGS,
) -> Draft:
    """Return a draft with the events of the command. Raises a DetentError if it is refused."""
    draft = Draft(world, couplings, now, actor)
    draft.answer = HANDLERS[type(command)](draft, command)
    return draft
