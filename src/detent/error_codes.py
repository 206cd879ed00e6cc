"""The table of error codes: HTTP status, exit code, and words for people.

A new code is a new row here; the reference page is generated from it. Standard library only.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One row of the table: what an error code means, over HTTP, in a shell, and for a person."""

    status: int
    exit_code: int
    meaning: str
    why: str
    remedy: str


def _unknown(meaning: str, why: str, remedy: str) -> Code:
    """What was named does not exist."""
    return Code(404, 3, meaning, why, remedy)


def _refused(meaning: str, why: str, remedy: str) -> Code:
    """The rules say no to something that others may be doing at the same time."""
    return Code(409, 1, meaning, why, remedy)


#: How commands end, one code for each answer to "whose fault"; 10 to 14 are those of a wait.
EXIT_CODES: Mapping[int, str] = {
    0: "It was done, or there was nothing to do.",
    1: "It was refused, or a check found something wrong: `verify`, `doctor`, `health`.",
    2: "The command line or the input is wrong.",
    3: "There is no such thing.",
    4: "The token does not allow it.",
    5: "A size, count or rate limit was passed.",
    6: "The store or the gateway cannot answer now; try again.",
    7: "A setting is missing or wrong.",
    10: "`submit --wait`: the task failed.",
    11: "`submit --wait`: the task is blocked and needs somebody.",
    12: "`submit --wait`: the task was cancelled.",
    13: "`submit --wait`: the task was over its time.",
    14: "`submit --wait`: the task was over its budget.",
    70: "detent itself is at fault; report it.",
    130: "It was stopped with Ctrl-C.",
}

CODES: Mapping[str, Code] = {
    # Refused
    "refused": _refused(
        "The request conflicts with the present state.",
        "The rules do not allow this here and now. Nothing was changed.",
        "Check the state and the legal actions with `detent why ID`.",
    ),
    "illegal_transition": _refused(
        "The event is not legal from the present state.",
        "A transition stands in the lifecycle's table or it does not exist. Nothing was changed.",
        "Check the state and the legal actions with `detent why ID`.",
    ),
    "stale_fence": _refused(
        "The write carries the fence of an older claim.",
        "The lease ended, the job was claimed again, or it has ended. Nothing was changed.",
        "Stop working on this job; whoever holds the newest fence goes on with it.",
    ),
    "idempotency_conflict": _refused(
        "The idempotency key was used before with another body.",
        "The same key with the same body returns the first result; another body cannot be meant.",
        "Send the first body again, or take a new key for new work.",
    ),
    "version_conflict": _refused(
        "Somebody has changed it since you looked.",
        "A verdict is bound to what was looked at. Nothing was changed.",
        "Look again and decide anew.",
    ),
    "task_exists": _refused(
        "There is a task with that id already.",
        "Ids are given once.",
        "Take another id, or act on the task that is there.",
    ),
    "job_exists": _refused(
        "There is a job with that id already.",
        "Ids are given once.",
        "Take another id, or act on the job that is there.",
    ),
    "parent_ended": _refused(
        "The parent has ended and takes no more subtasks.",
        "What has ended stays as it is.",
        "Submit the work on its own.",
    ),
    "task_ended": _refused(
        "The task has ended and is not changed any more.",
        "What has ended stays as it is.",
        "Submit a new task.",
    ),
    "job_ended": _refused(
        "The job has ended and hears no more signals.",
        "What has ended stays as it is.",
        "Look at the job; it may have finished without the signal.",
    ),
    "token_exists": _refused(
        "There is a token of that name already.",
        "The name stands for its holder in the log, so that it is given once.",
        "Take another name, or revoke the token that is there.",
    ),
    "history_removed": _refused(
        "What happened to it was removed from the log.",
        "Retention or a trim has taken the content of its events.",
        "Look at something younger, or at an export or a backup.",
    ),
    "not_a_run": _refused(
        "The token belongs to no run.",
        "This door is for the token that detent gives to a run when it starts it.",
        "Use the other paths, which the served OpenAPI document lists.",
    ),
    "already_asked": _refused(
        "The run has asked another question already.",
        "A run ends with one question; its answer comes with the next run.",
        "End the run, and ask again when it goes on.",
    ),
    "bad_archive": _refused(
        "The archive is not what it must be.",
        "It is damaged, was changed, or was never made by `detent export`. Nothing was stored.",
        "Export the task again; `detent export --verify FILE` lists what is wrong.",
    ),
    "evidence_exists": _refused(
        "The run has evidence of that name already.",
        "Evidence is added and never replaced.",
        "Take another name.",
    ),
    "open_question": _refused(
        "The task waits for an answer.",
        "An open question is not passed over.",
        "Answer it, or cancel the task.",
    ),
    "no_question": _refused(
        "The task has no open question.",
        "It was answered, has expired, or was never asked.",
        "Look at the task to see where it stands.",
    ),
    "already_answered": _refused(
        "The question was answered before, differently.",
        "The first answer stands; the work goes on with it.",
        "Look at the first answer, which this one carries.",
    ),
    "not_an_option": _refused(
        "The question allows only certain answers.",
        "The asker listed the options.",
        "Give one of the options that the answer lists.",
    ),
    "rounds_used": _refused(
        "The task was rejected as often as it may be.",
        "The number of review rounds is capped for this task.",
        "Raise max_rounds, or cancel the task.",
    ),
    "budget_too_small": _refused(
        "The new budget is not above what was spent.",
        "Money once spent stays spent.",
        "Set a budget above the amount that was spent.",
    ),
    "budget_spent": _refused(
        "The task has spent its budget, or a task above it has.",
        "It would be stopped again at once.",
        "`detent why ID` names the task whose budget is spent. Raise that, or cancel the task.",
    ),
    "dependency_failed": _refused(
        "A task that it depends on has failed.",
        "It would fail again at once.",
        "`detent why ID` says whether the failed task can be run again.",
    ),
    "dependency_open": _refused(
        "The tasks that it depends on are not done yet.",
        "It goes on by itself when they are.",
        "Wait, or cancel the task.",
    ),
    "still_needed": _refused(
        "It cannot be deleted while something needs it.",
        "It is live, or something that is live depends on it.",
        "The answer lists what needs it: that must end, or be deleted, first.",
    ),
    "not_dismissible": _refused(
        "The task is not a subtask that failed.",
        "Only a subtask that failed, timed out, was cancelled or exceeded its budget is dismissed.",
        "Check the state and the legal actions with `detent why ID`.",
    ),
    "held_by_worker": _refused(
        "A worker holds the job.",
        "Only the worker that claimed it reports about it; nobody else does so by hand.",
        "Wait for it, or cancel it; `detent workers` says who holds it.",
    ),
    "name_used_twice": _refused(
        "A step, effect or wait name was used twice in one job.",
        "Recorded results are found by name.",
        "Give each one a name of its own; a loop puts its index into it.",
    ),
    "not_claimable": _refused(
        "The job cannot be claimed now.",
        "It is not queued, or waits for a dependency.",
        "Claim another one.",
    ),
    "not_due": _refused(
        "Nothing is due.",
        "The time has not come, or somebody else has dealt with it.",
        "Nothing; duties are safe to repeat.",
    ),
    "not_cancelling": _refused(
        "Nobody asked to cancel the job.",
        "A cancel is confirmed only after it was asked for.",
        "Report how the run ended instead.",
    ),
    "step_not_startable": _refused(
        "The step cannot start now.",
        "It waits for other steps, a person or a time, or has started already.",
        "Start one of the steps that the answer lists.",
    ),
    "step_can_start": _refused(
        "The plan cannot rest: a step can start.",
        "A resource may have been freed since the worker looked.",
        "Start the step that the answer names.",
    ),
    "no_resource": _refused(
        "No fitting resource is free.",
        "All that fit are in use, unhealthy, or to be avoided.",
        "Wait; the job rests until one is free. See `detent resources`.",
    ),
    "still_running": _refused(
        "The job has live runs.",
        "It rests only when nothing of it runs.",
        "Report the ends of its runs first.",
    ),
    "plan_not_wanted": _refused(
        "The job has a plan and asked for no other.",
        "A new plan version is made only when a critic asks for one.",
        "Go on with the plan that is there.",
    ),
    "nothing_to_wait_for": _refused(
        "The plan has nothing to wait for.",
        "Every step has ended or can start.",
        "Start a step, or look at the job with `detent show`.",
    ),
    "own_work": Code(
        403,
        4,
        "A run may not judge or widen its own work.",
        "Whoever produces work does not accept it, nor raise its own limits.",
        "A person, or an agent that works on something else, must act.",
    ),
    "too_deep": Code(
        429,
        5,
        "Subtasks are nested too deeply.",
        "Depth is bounded so that work cannot multiply without end.",
        "Do the work in the subtask itself.",
    ),
    "too_many_subtasks": Code(
        429,
        5,
        "The task tree has as many subtasks as it may have.",
        "Their number is bounded so that work cannot multiply without end.",
        "Do the work in fewer subtasks.",
    ),
    "too_many_signals": Code(
        429,
        5,
        "The job has too many signals that nothing waited for yet.",
        "Early signals are kept, up to a bound.",
        "Send a signal when the job waits for it.",
    ),
    # Invalid
    "invalid": Code(
        422,
        2,
        "The input is not valid.",
        "A field is missing, of the wrong type, or outside what is allowed. Nothing was stored.",
        "Correct the field that the answer names and send the request again.",
    ),
    "unreadable": Code(
        400,
        2,
        "The input cannot be read as JSON.",
        "The text is cut, wrongly encoded, nested too deeply, or no JSON. Nothing was stored.",
        "Send one well-formed JSON document in UTF-8.",
    ),
    "unknown_state": Code(
        422,
        2,
        "The lifecycle has no state of that name.",
        "The name is misspelt or belongs to another lifecycle.",
        "Use one of the states that the answer lists.",
    ),
    "unknown_event": Code(
        422,
        2,
        "The lifecycle has no event of that name.",
        "The name is misspelt or belongs to another lifecycle.",
        "Use one of the events that the answer lists.",
    ),
    "unknown_intent": Code(
        422,
        2,
        "No intent of that name is known.",
        "It is neither in the configuration nor was it ever registered by a worker.",
        "Use one of the known intents, or configure the new one and start its worker.",
    ),
    # NotFound
    "not_found": _unknown(
        "There is no such thing.",
        "The name or id is wrong, or the thing was removed.",
        "Check the name or id.",
    ),
    "unknown_lifecycle": _unknown(
        "There is no lifecycle of that name.",
        "The lifecycles are fixed and few.",
        "Use one of the lifecycles that the answer lists.",
    ),
    "unknown_task": _unknown(
        "There is no task with that id.",
        "The id is wrong, the task is in another project, or retention has removed it.",
        "Check the id with `detent tasks`.",
    ),
    "unknown_job": _unknown(
        "There is no job with that id.",
        "The id is wrong, the job is in another project, or retention has removed it.",
        "Check the id with `detent show` of its task.",
    ),
    "unknown_run": _unknown(
        "There is no run with that id.",
        "The id is wrong, the run is in another project, or retention has removed it.",
        "Check the id with `detent runs`.",
    ),
    "unknown_webhook": _unknown(
        "There is no webhook of that name.",
        "It was deleted, belongs to another project, or never was.",
        "Look at the names with `detent webhooks`.",
    ),
    "unknown_token": _unknown(
        "There is no token of that name.",
        "It was revoked, has expired, or never was.",
        "Look at the names with `detent tokens`.",
    ),
    "unknown_session": _unknown(
        "There is no session with that id.",
        "It was ended, has expired, its token was revoked, or it belongs to another token.",
        "List the sessions with `detent sessions`.",
    ),
    # HTTP alone
    "method_not_allowed": Code(
        405,
        2,
        "The path does not know that method.",
        "Each path takes the methods that the header `Allow` lists, and no others.",
        "Use one of them; the served OpenAPI document has all paths.",
    ),
    "body_timeout": Code(
        408,
        6,
        "The body did not come in time.",
        "A request that stands still would hold a connection for ever. Nothing was stored.",
        "Send the request again, without pauses.",
    ),
    "precondition_failed": Code(
        412,
        1,
        "It is not the version that `If-Match` names.",
        "Somebody has changed it since you looked. Nothing was changed.",
        "Look again and decide anew.",
    ),
    "wrong_media_type": Code(
        415,
        2,
        "The body is not of the media type that the path takes.",
        "Each path takes one media type, uncompressed; most take `application/json`.",
        "Set `Content-Type` to the one that the answer names.",
    ),
    "wrong_host": Code(
        421,
        4,
        "The header `Host` names nobody that this gateway answers for.",
        "A name that was made to point here (DNS rebinding) must not open anything.",
        "Use 127.0.0.1 or localhost with the port, or add the name to `gateway.hosts`.",
    ),
    # Unauthorized, Forbidden
    "unauthorized": Code(
        401,
        4,
        "No valid token came with the request.",
        "The token is missing, unknown, expired or revoked.",
        "Send the token in the header `Authorization: Bearer …`.",
    ),
    "forbidden": Code(
        403,
        4,
        "The token does not allow this.",
        "Its scopes, as the server has recorded them, do not cover the action.",
        "Use a token with the scope that the answer names, or ask somebody who has one.",
    ),
    "wrong_origin": Code(
        403,
        4,
        "The request comes from another site's page.",
        "Only detent's own page may act with a person's session.",
        "Open detent's own page, or send a token in the header `Authorization`.",
    ),
    # TooLarge, TooMany
    "too_large": Code(
        413,
        5,
        "The input is larger than the limit.",
        "Sizes, depths and lengths are bounded so that one request cannot hold up the others.",
        "Send less at once; the answer names the limit.",
    ),
    "too_many": Code(
        429,
        5,
        "Too many requests or too many things at once.",
        "A rate, quota or queue limit was reached. Nothing was stored.",
        "Wait as long as the answer says, then try again.",
    ),
    # Unavailable
    "unavailable": Code(
        503,
        6,
        "The service cannot answer at the moment.",
        "The store is busy, full or away, or the process is stopping. Nothing was acknowledged.",
        "Try again later; with the same idempotency key nothing is done twice.",
    ),
    # Misconfigured
    "misconfigured": Code(
        500,
        7,
        "A setting is missing or wrong.",
        "detent does not start on a configuration with which it cannot keep its promises.",
        "Set what the message names.",
    ),
    # Broken
    "internal": Code(
        500,
        70,
        "detent has met an error of its own.",
        "The program did not expect this. The log of the server has the details.",
        "Report it with the request id of the answer.",
    ),
    "broken": Code(
        500,
        70,
        "An invariant does not hold.",
        "The data or the program is not what it must be; going on could make it worse.",
        "Stop, keep the data directory as it is, run `detent verify`, and report what it says.",
    ),
}
