"""The pictures that pages show, and whether they show the dashboard as its sources are now.

`./dev pictures` takes them and records the sources; `./dev docs` refuses a picture that is missing,
that no page shows, or that shows an earlier dashboard. Reads files only.
"""

import hashlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Below docs/: the pictures, and the digest of the sources that they were taken from.
IMAGES = "docs/images"
TAKEN_FROM = f"{IMAGES}/taken-from.txt"
SHOWN = re.compile(r"!\[[^\]]*\]\([^)\s]*images/([\w-]+\.png)")
#: What the dashboard is built from, and the program that takes the pictures.
SOURCES = ("web/index.html", "web/public/**/*", "web/src/**/*", "tools/screenshots.py")
#: Nothing on a page depends on them: tests, and the types of the HTTP API.
INVISIBLE = re.compile(r"\.test\.tsx?$|/api/schema\.ts$")


def shown(root: Path = ROOT) -> dict[str, str]:
    """The pictures that pages show, each with one of its pages."""
    pages = [*root.glob("*.md"), *sorted((root / "docs").rglob("*.md"))]
    return {
        name: str(page.relative_to(root))
        for page in pages
        for name in SHOWN.findall(page.read_text(encoding="utf-8"))
    }


def sources_digest(root: Path = ROOT) -> str:
    """The SHA-256 of the names and contents of everything that pictures depend on."""
    found = {file for pattern in SOURCES for file in root.glob(pattern) if file.is_file()}
    digest = hashlib.sha256()
    for file in sorted(found):
        name = file.relative_to(root).as_posix()
        if not INVISIBLE.search(name):
            digest.update(f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def flaws(root: Path = ROOT) -> list[str]:
    """What is wrong with the pictures, in sentences."""
    wanted, there = shown(root), {file.name for file in (root / IMAGES).glob("*.png")}
    found = [
        f"{page} shows {name}, which is missing: run ./dev pictures"
        for name, page in wanted.items()
        if name not in there
    ]
    found += [f"no page shows {IMAGES}/{name}: delete it" for name in sorted(there - set(wanted))]
    taken = root / TAKEN_FROM
    if not taken.exists() or taken.read_text(encoding="utf-8").strip() != sources_digest(root):
        found.append(f"the dashboard has changed since {IMAGES} was taken: run ./dev pictures")
    return found
