"""The exit codes of the command line, one for each kind of error."""

from collections.abc import Mapping

#: 10 to 15 are those of `detent wait`, and 10 to 14 also those of `submit --wait`.
EXIT_CODES: Mapping[int, str] = {
    0: "The command succeeded, or there was nothing to do.",
    1: "The command was refused, or a check found a problem: `verify`, `doctor`, `health`.",
    2: "The command line or the input is invalid.",
    3: "The named object does not exist.",
    4: "The token is missing, or does not allow the action.",
    5: "A size, count or rate limit was exceeded.",
    6: "The store or the gateway is unavailable. Try again.",
    7: "A setting is missing or invalid.",
    10: "`wait`, `submit --wait`: the task failed.",
    11: "`wait`, `submit --wait`: the task is blocked and needs a person.",
    12: "`wait`, `submit --wait`: the task was cancelled.",
    13: "`wait`, `submit --wait`: the task exceeded its time limit.",
    14: "`wait`, `submit --wait`: the task exceeded its budget.",
    15: "`wait --timeout`: the task has not ended yet, and needs no person.",
    70: "detent has an internal error. Report it.",
    130: "The command was interrupted with Ctrl-C.",
}
