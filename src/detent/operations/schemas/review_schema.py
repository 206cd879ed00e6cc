"""Types of the review of a task: its diff, the files, the lines, and the differences of rounds."""

from typing import Any, Literal

from typing_extensions import TypedDict

from detent.operations.schemas.work_schema import Evidence
from detent.review.file_kinds import GeneratedKind


class EvidenceFile(TypedDict):
    """The run and the name of an evidence file."""

    run_id: str
    file: str


class DiffFile(TypedDict):
    """A file of a diff. Modes are octal text, null if the diff does not have them."""

    path: str
    #: The earlier name of a renamed file, or the file that was copied.
    old_path: str | None
    status: Literal["added", "deleted", "modified", "renamed", "copied"]
    added: int
    removed: int
    binary: bool
    #: Whether a person probably did not write it, and why.
    generated: bool
    generated_kind: GeneratedKind | None
    old_mode: str | None
    new_mode: str | None
    image: bool
    #: The contents of an image, if the worker stored them.
    image_before: EvidenceFile | None
    image_after: EvidenceFile | None
    #: The number of lines in its hunks.
    lines: int


class ReviewedDiff(TypedDict):
    """The diff under review."""

    sha256: str
    run_id: str
    size: int
    at: str
    #: The path of its content.
    download: str
    #: Whether it exceeds the limit for parsing: then `files` is empty.
    too_large: bool
    files: list[DiffFile]


class EarlierDiff(TypedDict):
    """The last diff of an earlier round. The first round is 1."""

    round: int
    run_id: str
    sha256: str
    at: str


class Asked(TypedDict):
    """What was asked for."""

    payload: Any
    #: From the options or the payload of the task; null if neither has them.
    acceptance_criteria: Any


class Check(TypedDict):
    """What the checker of a task has found about the work under review."""

    #: The task and the intent of the checker, and the state of the task.
    task_id: str
    checker: str
    state: str
    #: Whether the checker accepts the work; null until it has ended.
    accept: bool | None
    #: The diff that it has checked; null if there was none.
    diff: str | None
    #: All that the checker has reported, for example `findings`.
    result: Any


class TestCounts(TypedDict):
    """Counts in the newest test-results.json of the last round; null if it has none."""

    passed: int | None
    failed: int | None


class Review(TypedDict):
    """What a reviewer needs: what was asked, what it cost, and the diff with its files.

    `rounds` is how often changes were requested: 0 in round 1.
    """

    task_id: str
    title: str
    intent: str
    state: str
    version: int
    lifecycle: str
    asked: Asked
    rounds: int
    #: How often changes can be requested; null: no limit.
    rounds_limit: int | None
    cost_usd: float
    tokens_in: int
    tokens_out: int
    duration_ms: int
    #: The evidence of the type test_result of the last round.
    tests: list[Evidence]
    test_counts: TestCounts
    #: Of the last round; null if the task has no checker.
    check: Check | None
    result: Any
    diff: ReviewedDiff | None
    #: The diffs of earlier rounds, oldest first.
    earlier: list[EarlierDiff]
    #: The files that the caller has marked as viewed and that have not changed since.
    viewed: list[str]
    open_comments: int


class ReviewLine(TypedDict):
    """A line with its number on each side that has it."""

    kind: Literal["context", "added", "removed"]
    text: str
    before: int | None
    after: int | None
    #: Whether the file ends here without a line feed.
    no_newline: bool


class ReviewHunk(TypedDict):
    """Consecutive lines of a file."""

    before_start: int
    before_count: int
    after_start: int
    after_count: int
    heading: str
    lines: list[ReviewLine]


class ReviewFile(TypedDict):
    """The lines of a file of a diff. `truncated`: the diff or the response has not all of them."""

    diff: str
    path: str
    old_path: str | None
    hunks: list[ReviewHunk]
    truncated: bool


class ChangedFile(TypedDict):
    """A file that two diffs of a task leave in different states."""

    path: str
    #: Its name in the earlier diff, if it has another one now.
    old_path: str | None
    added: int
    removed: int
    binary: bool


class ReviewBetween(TypedDict):
    """What changed from an earlier diff to the one under review: of one file, or all files.

    `before` numbers lines of the earlier version of the file, `after` those of the present one.
    """

    since: str
    diff: str
    path: str | None
    old_path: str | None
    hunks: list[ReviewHunk]
    truncated: bool
    #: Whether the file had another base in the earlier diff: then only shown lines are compared.
    base_changed: bool
    #: The files that differ; empty if a path was given.
    files: list[ChangedFile]


class Viewed(TypedDict):
    """The files of the diff that the caller has viewed."""

    diff: str
    viewed: list[str]
