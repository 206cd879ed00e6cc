"""A progress bar on stderr; shown only on a terminal, and only for long work."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: A bar is shown from this total on.
MIN_TOTAL = 20


@contextmanager
def progress_bar(total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a progress bar; yields a function that updates it.

    The function takes a label, the completed amount, and the total if it was not known before.
    """
    if not sys.stderr.isatty() or (total is not None and total < MIN_TOTAL):
        yield _ignore
        return
    from rich.progress import Progress

    with Progress(console=_console(), transient=True) as progress:
        bars: dict[str, Any] = {}

        def update(what: str, at: int, of: int | None = total) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=of)
            progress.update(bars[what], completed=at)

        yield update


def _ignore(what: str, at: int, of: int | None = None) -> None:
    """Ignore progress if stderr is no terminal."""


def _console() -> Any:
    from rich.console import Console

    return Console(stderr=True)
