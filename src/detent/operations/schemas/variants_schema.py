"""Types of the comparison of a task's variants."""

from typing import Literal

from typing_extensions import TypedDict

from detent.operations.schemas.work_schema import Evidence


class VariantDiff(TypedDict):
    """The diff of a variant: its SHA-256, the run that left it, and its size."""

    sha256: str
    run_id: str
    size: int
    #: Null if the diff is too large to be parsed, or was deleted.
    files: int | None
    added: int | None
    removed: int | None


class VariantTests(TypedDict):
    """The test results of a variant; the counts are null if no evidence has them."""

    evidence: list[Evidence]
    passed: int | None
    failed: int | None


class VariantCheck(TypedDict):
    """The check of a variant by its checker; `accept` is null until it has ended."""

    task_id: str
    checker: str
    state: str
    accept: bool | None
    cost_usd: float


class Variant(TypedDict):
    """One variant: how it ended, and what its work cost and left."""

    number: int
    task_id: str
    intent: str
    state: str
    error: str | None
    #: Whether it has not ended.
    live: bool
    #: Whether it can be chosen now.
    choosable: bool
    chosen: bool
    #: Whether it passes: it ended well, no test failed, and its checker accepts it. Null: open.
    passes: bool | None
    diff: VariantDiff | None
    tests: VariantTests
    check: VariantCheck | None
    cost_usd: float
    tokens_in: int
    tokens_out: int
    duration_ms: int


class Variants(TypedDict):
    """The variants of a task, by number, and which of them was chosen."""

    task_id: str
    title: str
    state: str
    lifecycle: str
    version: int
    #: How many variants its options ask for; 0 for a task without variants.
    wanted: int
    choose: Literal["person", "first_passing", "cheapest_passing"]
    #: The number of the chosen variant.
    chosen: int | None
    #: Whether the task waits for a person to choose.
    waits_for_choice: bool
    budget_usd: float | None
    cost_usd: float
    variants: list[Variant]
