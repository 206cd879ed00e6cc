"""Writes every page that is generated from the code; with --check only says which are stale.

To add a page, add a line to PAGES: its path, and the function that returns its text.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from tools import (
    architecture,
    decisions,
    document_reference,
    python_api,
    reference,
    routes,
    surface,
    web_types,
)

ROOT = Path(__file__).resolve().parent.parent
PAGES: tuple[tuple[str, Callable[[], str]], ...] = (
    ("ARCHITECTURE.md", architecture.architecture),
    ("docs/architecture.md", architecture.site_page),
    ("docs/reference/modules.md", architecture.modules),
    ("docs/decisions/index.md", decisions.index),
    *reference.PAGES.items(),
    *document_reference.PAGES.items(),
    *surface.PAGES.items(),
    *python_api.PAGES.items(),
    *web_types.PAGES.items(),
    *routes.PAGES.items(),
)


def stale() -> list[str]:
    """The paths whose file is not what the code would write today."""
    return [path for path, render in PAGES if _read(ROOT / path) != render()]


def write() -> list[str]:
    """Write the stale pages and return their paths."""
    written = stale()
    for path, render in PAGES:
        if path in written:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(render(), encoding="utf-8")
    return written


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python -m tools.generate [--check]", file=sys.stderr)
        return 2
    if not arguments:
        print("\n".join(f"wrote {path}" for path in write()) or "every generated page is current")
        return 0
    for path in (outdated := stale()):
        print(f"{path} is stale: run ./dev generate", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
