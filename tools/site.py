"""Builds the documentation into site/: warnings are errors, and no page may load from elsewhere.

A picture of the dashboard that is missing or no longer true is an error too.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools import pictures

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
# What a browser fetches by itself. Links that a reader follows may lead anywhere.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^\"' >]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|preconnect|icon))[^>]*"
    r"\bhref=[\"']?(?:https?:)?//[^\"' >]+"
)


def build() -> int:
    """Build from nothing, so that a page that was removed cannot linger; returns an exit code."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode != 0 or not (SITE / "index.html").exists():
        print(_readable(result.stdout + result.stderr), file=sys.stderr)
        return result.returncode or 1
    return 0


def _readable(output: str) -> str:
    """Without colours, and without the traceback by which the builder ends a strict build."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return plain.partition("Traceback")[0] if "--strict flag is set" in plain else plain


def missing_pages(root: Path) -> list[str]:
    """Pages that the navigation names and that do not exist, which the builder lets pass."""
    named = re.findall(r"[\w/-]+\.md\b", (root / "mkdocs.yml").read_text(encoding="utf-8"))
    return [page for page in named if not (root / "docs" / page).exists()]


def foreign_loads(site: Path) -> list[str]:
    """Everything in the built pages that a reader's browser would fetch from another host."""
    return [
        f"{page.relative_to(site)}: {match[0]}"
        for page in sorted(site.rglob("*.html"))
        for match in LOADED.finditer(page.read_text(encoding="utf-8"))
    ]


def main() -> int:
    if code := build():
        return code
    flaws = [f"mkdocs.yml names {page}, which is not in docs/" for page in missing_pages(ROOT)]
    flaws += [f"loads from elsewhere: {load}" for load in foreign_loads(SITE)]
    flaws += pictures.flaws(ROOT)
    print("\n".join(flaws) or f"built {SITE / 'index.html'}", file=sys.stderr if flaws else None)
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main())
