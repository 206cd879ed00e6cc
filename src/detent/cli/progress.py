"""How far long work is: a bar on stderr, only on a terminal, and only when there is much of it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: Fewer than this are done before anybody would look.
MANY = 20


@contextmanager
def bar(total: int | None = None) -> Iterator[Callable[..., None]]:
    """A function that is told what is being done, how far it is, and of how much if that is known
    only then."""
    if not sys.stderr.isatty() or (total is not None and total < MANY):
        yield _untold
        return
    from rich.progress import Progress

    with Progress(console=_console(), transient=True) as progress:
        bars: dict[str, Any] = {}

        def tell(what: str, at: int, of: int | None = total) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=of)
            progress.update(bars[what], completed=at)

        yield tell


def _untold(what: str, at: int, of: int | None = None) -> None:
    """Nobody looks at a pipe."""


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)
