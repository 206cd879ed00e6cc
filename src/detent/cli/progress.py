"""How far long work is: a bar on stderr, only on a terminal, and only when there is much of it."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

#: Fewer than this are done before anybody would look.
MANY = 20


def counted(items: Sequence[Any], what: str) -> Iterable[Any]:
    """The items one by one, with a bar beside them."""
    if len(items) < MANY or not sys.stderr.isatty():
        return items
    return _tracked(items, what)


def _tracked(items: Sequence[Any], what: str) -> Iterator[Any]:
    from rich.progress import track

    yield from track(items, what, console=_console(), transient=True)


@contextmanager
def bar(total: int | None = None) -> Iterator[Callable[..., None]]:
    """A function that is told what is being done, how far it is, and of how much if that is known
    only then."""
    if not sys.stderr.isatty():
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
