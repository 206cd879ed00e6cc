"""A deliberately broken variant of detent: what it replaces, and the check that must notice it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

Patches = Iterator[Any]


class Mutant(NamedTuple):
    #: Context managers, each of which replaces a part of detent.
    patches: Callable[[], Patches]
    #: Raises AssertionError if it notices the mutant; None: a test with a name does.
    check: Callable[[], None] | None = None


@contextmanager
def applied(patches: Callable[[], Patches]) -> Iterator[None]:
    """Everything inside runs with the mutant."""
    with ExitStack() as stack:
        for each in patches():
            stack.enter_context(each)
        yield
