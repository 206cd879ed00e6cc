"""One row of the table of error codes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """The HTTP status and the exit code of an error code, and its explanation for people.

    `remedy` is the default hint of an error. It is shown in Python, in a shell and over HTTP, so it
    must make sense in all three.
    """

    status: int
    exit_code: int
    meaning: str
    why: str
    remedy: str
