"""Error codes of all other errors: invalid input, missing objects, limits, access, faults."""

from collections.abc import Mapping

from detent.error_codes.code import Code


def _unknown(meaning: str, why: str, remedy: str) -> Code:
    """The named object does not exist."""
    return Code(404, 3, meaning, why, remedy)


FAILURES: Mapping[str, Code] = {
    "not_the_sender": Code(
        403,
        4,
        "The lifecycle allows only others to send this event.",
        "The row of the lifecycle names the people who may send it.",
        "Ask one of the people whom the error names.",
    ),
    "own_work": Code(
        403,
        4,
        "A run may not review its own work or raise its own limits.",
        "Work is accepted, and its limits are raised, by someone who does not work on it.",
        "Ask a person, or an agent that works on another task, to do it.",
    ),
    "too_deep": Code(
        429,
        5,
        "Subtasks are nested too deeply.",
        "The depth is limited so that tasks cannot create tasks without end.",
        "Do the work in the present subtask.",
    ),
    "too_many_subtasks": Code(
        429,
        5,
        "The task tree has reached its limit of subtasks.",
        "The number is limited so that tasks cannot create tasks without end.",
        "Divide the work into fewer subtasks.",
    ),
    "too_many_signals": Code(
        429,
        5,
        "The job has too many signals that it has not waited for yet.",
        "Signals that arrive early are stored, up to a limit.",
        "Send the signal when the job waits for it.",
    ),
    "too_many_comments": Code(
        429,
        5,
        "The task has too many comments, or the comment has too many replies.",
        "Their number is limited because every decision about a comment reads all of them.",
        "If the task has too many comments, reply to an existing one. If the comment has too many "
        "replies, add another comment. Nothing was stored.",
    ),
    # Invalid
    "invalid_lifecycle": Code(
        422,
        2,
        "The document of the lifecycle has errors, so it was not installed.",
        "A check of the document, or a search of everything that can happen, found them.",
        "Correct what the error lists. `detent lifecycle check FILE` shows all errors.",
    ),
    "invalid": Code(
        422,
        2,
        "The input is not valid.",
        "A field is missing, has the wrong type, or has a value that is not allowed. Nothing was "
        "stored.",
        "Correct the field that the error names, and try again.",
    ),
    "unreadable": Code(
        400,
        2,
        "The input is not valid JSON.",
        "The text is incomplete, not in UTF-8, nested too deeply, or not JSON. Nothing was stored.",
        "Use one well-formed JSON document in UTF-8.",
    ),
    "unknown_state": Code(
        422,
        2,
        "The lifecycle has no state with this name.",
        "The name is misspelt or belongs to another lifecycle.",
        "Use one of the states that the error lists.",
    ),
    "unknown_event": Code(
        422,
        2,
        "The lifecycle has no event with this name.",
        "The name is misspelt or belongs to another lifecycle.",
        "Use one of the events that the error lists.",
    ),
    "unknown_intent": Code(
        422,
        2,
        "There is no task type (intent) with this name.",
        "It is not in the configuration, and no worker has registered it.",
        "Use one of the known intents, or configure the new one and start a worker for it.",
    ),
    # NotFound
    "not_found": _unknown(
        "The named object does not exist.",
        "The name or id is wrong, or the object was removed.",
        "Check the name or id.",
    ),
    "unknown_lifecycle": _unknown(
        "There is no lifecycle with this name.",
        "The name is misspelt, or the lifecycle was not installed.",
        "Use one of the lifecycles that the error lists.",
    ),
    "unknown_task": _unknown(
        "There is no task with this id.",
        "The id is wrong, the task is in another project, or retention has removed it.",
        "Check the id with `detent tasks`.",
    ),
    "unknown_job": _unknown(
        "There is no job with this id.",
        "The id is wrong, the job is in another project, or retention has removed it.",
        "Check the id with `detent jobs`.",
    ),
    "unknown_run": _unknown(
        "There is no run with this id.",
        "The id is wrong, the run is in another project, or retention has removed it.",
        "Check the id with `detent runs`.",
    ),
    "unknown_comment": _unknown(
        "The task has no comment with this id.",
        "The id is misspelt, or the comment belongs to another task.",
        "List the comments with `detent comments ID`.",
    ),
    "unknown_diff": _unknown(
        "The task has no diff with this SHA-256.",
        "The SHA-256 is wrong or of another task, no run left a diff, or retention has removed it.",
        "Use the SHA-256 of the diff under review, or one of those that the error lists.",
    ),
    "unknown_file": _unknown(
        "The diff has no file with this path.",
        "The path is misspelt, or the diff does not change the file.",
        "Use a path of the diff, exactly as the review lists it.",
    ),
    "unknown_webhook": _unknown(
        "There is no webhook with this name.",
        "The name is wrong, or the webhook was deleted or belongs to another project.",
        "Check the name with `detent webhooks`.",
    ),
    "unknown_token": _unknown(
        "There is no token with this name.",
        "The name is wrong, or the token was revoked or has expired.",
        "Check the name with `detent tokens`.",
    ),
    "unknown_user": _unknown(
        "There is no user with this name.",
        "No person with this name has signed in, or the user was removed.",
        "`detent users` lists the users.",
    ),
    "unknown_session": _unknown(
        "There is no session with this id.",
        "It was ended, has expired, its token was revoked, or it belongs to another token.",
        "Check the id with `detent sessions`.",
    ),
    # Only over HTTP
    "method_not_allowed": Code(
        405,
        2,
        "The path does not accept this HTTP method.",
        "Each path accepts only the methods in the header `Allow`.",
        "Use one of these methods; the OpenAPI document of the gateway lists all paths.",
    ),
    "body_timeout": Code(
        408,
        6,
        "The request body did not arrive in time.",
        "A request that makes no progress would occupy a connection without end. Nothing was "
        "stored.",
        "Send the request again without pauses.",
    ),
    "precondition_failed": Code(
        412,
        1,
        "The object does not have the version in `If-Match`.",
        "It was changed after you read it. Nothing was changed.",
        "Read the object again, then repeat the change with its new version.",
    ),
    "wrong_media_type": Code(
        415,
        2,
        "The path does not accept the media type of the body.",
        "Each path accepts one media type, uncompressed; most accept `application/json`.",
        "Set `Content-Type` to the media type that the error names.",
    ),
    "incompatible_version": Code(
        400,
        7,
        "The client and the gateway have no version of the HTTP API in common.",
        "Each supports a range of versions, which it sends in the header `Detent-Api`.",
        "Upgrade the side that the error names. Nothing was changed.",
    ),
    "wrong_host": Code(
        421,
        4,
        "The gateway does not serve the host in the header `Host`.",
        "Only known host names are served; this prevents DNS rebinding.",
        "Use 127.0.0.1 or localhost with the port, or add the header's value, with its port, to "
        "`gateway.hosts`.",
    ),
    # Unauthorized, Forbidden
    "unauthorized": Code(
        401,
        4,
        "The request has no valid token.",
        "The token is missing, unknown, expired or revoked.",
        "Use a valid token, which `detent tokens create` creates: with --token or DETENT_TOKEN, or "
        "over HTTP in the header `Authorization: Bearer …`.",
    ),
    "forbidden": Code(
        403,
        4,
        "The token does not allow this action.",
        "The token does not have the scope that the action needs.",
        "Use a token with the scope that the error names.",
    ),
    "no_role": Code(
        403,
        4,
        "The person has no role in the project, or in none at all.",
        "The setting `oidc.roles` of the gateway maps groups and people to roles.",
        "Ask an administrator for a role. `detent users` lists people with their groups and roles.",
    ),
    "wrong_origin": Code(
        403,
        4,
        "The request comes from a page of another site.",
        "Only the dashboard of this gateway may act with a person's session.",
        "Use the dashboard of this gateway, or send a token in the header `Authorization`.",
    ),
    # TooLarge, TooMany
    "too_large": Code(
        413,
        5,
        "The input exceeds the size limit.",
        "Sizes, depths and lengths are limited so that one request cannot block others.",
        "Reduce the size to the limit that the error names.",
    ),
    "too_many": Code(
        429,
        5,
        "A rate, quota or queue limit was exceeded.",
        "The limit protects the other users of this installation. Nothing was stored.",
        "Wait for the time that the error names, then try again.",
    ),
    "submission_quota": Code(
        429,
        5,
        "The project has reached its quota of submissions.",
        "`submit_rate` of the project limits how many tasks and jobs are accepted in a time. "
        "Nothing was stored.",
        "Wait for the time that the error names, then try again. An operator can raise the quota: "
        "`detent projects quota NAME --submissions 100/60s`.",
    ),
    # Unavailable
    "unavailable": Code(
        503,
        6,
        "The service is temporarily unavailable.",
        "The store is busy, full or unreachable, or the process is stopping. The request was not "
        "confirmed.",
        "Try again later. With the same idempotency key, nothing is done twice.",
    ),
    # Misconfigured
    "misconfigured": Code(
        500,
        7,
        "A setting is missing or invalid.",
        "detent does not start with a configuration that could break its guarantees.",
        "Correct the setting that the message names.",
    ),
    # Broken
    "internal": Code(
        500,
        70,
        "detent has an internal error.",
        "The program did not expect this situation. The server's log has the details.",
        "Report it with the request id in the error.",
    ),
    "broken": Code(
        500,
        70,
        "The data or the program violates an invariant.",
        "detent stops here, because continuing could damage the data.",
        "Stop detent, keep the data directory, run `detent verify`, and report its output.",
    ),
}
