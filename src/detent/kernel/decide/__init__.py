"""Deciding: `decide(world, command, now, actor)` gives a draft with the events, or refuses.

Pure. One function for each command, found by its type; everything an event pulls along follows
from the couplings.
"""

from collections.abc import Callable, Mapping
from typing import Any

from detent.kernel import commands as c
from detent.kernel.couplings import COUPLINGS
from detent.kernel.decide import changing, due, judging, people, planning, reports, submit
from detent.kernel.draft import Couplings, Draft
from detent.kernel.world import World

HANDLERS: Mapping[type[c.Command], Callable[[Draft, Any], Any]] = {
    c.SubmitTask: submit.submit_task,
    c.SubmitJob: submit.submit_job,
    c.ForkJob: submit.fork_job,
    c.QueueTask: people.queue_task,
    c.RetryTask: people.retry_task,
    c.ResumeTask: people.resume_task,
    c.CancelTask: people.cancel_task,
    c.AcceptTask: judging.accept_task,
    c.RejectTask: judging.reject_task,
    c.AnswerTask: judging.answer_task,
    c.DismissSubtask: people.dismiss_subtask,
    c.UnblockTask: people.unblock_task,
    c.EditTask: changing.edit_task,
    c.RaiseBudget: changing.raise_budget,
    c.DeleteTask: changing.delete_task,
    c.CancelJob: people.cancel_job,
    c.RetryJob: people.retry_job,
    c.AnswerJob: judging.answer_job,
    c.DeleteJob: changing.delete_job,
    c.SendSignal: judging.send_signal,
    c.AttachEvidence: changing.attach_evidence,
    c.ClaimJob: reports.claim_job,
    c.RecordCheckpoint: reports.record_checkpoint,
    c.BeginEffect: reports.begin_effect,
    c.SuspendRun: reports.suspend_run,
    c.CompleteRun: reports.complete_run,
    c.FailRun: reports.fail_run,
    c.TimeOutRun: reports.time_out_run,
    c.ConfirmCancel: reports.confirm_cancel,
    c.HandBack: reports.hand_back,
    c.ChargeRun: reports.charge_run,
    c.ReserveFunds: reports.reserve_funds,
    c.ReportProgress: reports.report_progress,
    c.AddEvidence: reports.add_evidence,
    c.OpenSession: reports.open_session,
    c.RecordPlan: planning.record_plan,
    c.FailPlan: planning.fail_plan,
    c.StartStep: planning.start_step,
    c.RestPlan: planning.rest_plan,
    c.ReclaimJob: due.reclaim_job,
    c.RequeueJob: due.requeue_job,
    c.WakeJob: due.wake_job,
    c.ExpireJob: due.expire_job,
    c.EndHold: due.end_hold,
    c.CheckTask: due.check_task,
}


def decide(
    world: World,
    command: c.Command,
    now: int,
    actor: c.Actor,
    couplings: Couplings = COUPLINGS,
) -> Draft:
    """What the command does, as a draft with its events. Raises a DetentError if it may not."""
    draft = Draft(world, couplings, now, actor)
    draft.answer = HANDLERS[type(command)](draft, command)
    return draft
