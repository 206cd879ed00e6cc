"""Kinds of files that a review treats differently: generated files, which it folds, and images.

Most kinds are recognised by the name. A diff is written by an agent, so a kind only changes how a
file is shown; no file is left out because of it. Pure.
"""

import re
from typing import Literal

from detent.review.unified_diff import FileDiff

LOCK_FILES = frozenset(
    {
        "bun.lock",
        "bun.lockb",
        "cargo.lock",
        "cartfile.resolved",
        "composer.lock",
        "conan.lock",
        "deno.lock",
        "flake.lock",
        "gemfile.lock",
        "go.sum",
        "go.work.sum",
        "gradle.lockfile",
        "mix.lock",
        "npm-shrinkwrap.json",
        "package-lock.json",
        "package.resolved",
        "packages.lock.json",
        "pdm.lock",
        "pipfile.lock",
        "pixi.lock",
        "pnpm-lock.yaml",
        "podfile.lock",
        "poetry.lock",
        "pubspec.lock",
        "pylock.toml",
        "uv.lock",
        "yarn.lock",
        ".terraform.lock.hcl",
    }
)
#: Directories with code that was copied from elsewhere.
VENDORED = frozenset({"node_modules", "third_party", "third-party", "vendor", "vendored"})
MINIFIED = re.compile(r"\.min\.(js|mjs|cjs|css)$|\.(js|mjs|cjs|css)\.map$")
GENERATED = re.compile(
    r"(\.pb\.(go|cc|h)|_pb2(_grpc)?\.pyi?|\.(g|freezed)\.dart|\.designer\.cs|\.g\.cs)$"
)
#: What generators write near the top of a file.
MARKER = re.compile(rb"@generated\b|\bCode generated .*\bDO NOT EDIT\b", re.IGNORECASE)
MARKED_LINES, MARKED_CHARACTERS = 10, 500
#: A file with a longer line, in bytes, was not written by a person.
LONGEST_LINE = 5_000
GeneratedKind = Literal["lock_file", "vendored", "minified", "generated", "long_lines"]
IMAGES = frozenset({"gif", "jpeg", "jpg", "png", "webp"})


def generated_kind(file: FileDiff) -> GeneratedKind | None:
    """Why a person probably did not write the file; None if a person did."""
    if is_lock_file(file.path):
        return "lock_file"
    if is_vendored(file.path):
        return "vendored"
    if is_minified(file.path):
        return "minified"
    if GENERATED.search(file.path.lower()) is not None or _is_marked(file):
        return "generated"
    if any(len(raw) > LONGEST_LINE for hunk in file.hunks for raw in hunk.body):
        return "long_lines"
    return None


def is_lock_file(path: str) -> bool:
    """Whether a package manager writes the file."""
    return path.rpartition("/")[2].lower() in LOCK_FILES


def is_vendored(path: str) -> bool:
    """Whether the file is in a directory for copies of other projects."""
    return not VENDORED.isdisjoint(part.lower() for part in path.split("/")[:-1])


def is_minified(path: str) -> bool:
    """Whether the file is a minified script or style sheet, or a source map."""
    return MINIFIED.search(path.lower()) is not None


def is_image(path: str) -> bool:
    """Whether a browser can show the file as an image; SVG is not one, it can contain scripts."""
    name, _, ending = path.rpartition("/")[2].rpartition(".")
    return name != "" and ending.lower() in IMAGES


def _is_marked(file: FileDiff) -> bool:
    """Whether one of the first lines says that the file is generated, if the diff shows them."""
    hunk = file.hunks[0] if file.hunks else None
    if hunk is None or hunk.after_start > 1:
        return False
    other_side = b"+" if file.status == "deleted" else b"-"
    first = [raw for raw in hunk.body[: 2 * MARKED_LINES] if raw[:1] != other_side]
    return any(MARKER.search(raw[:MARKED_CHARACTERS]) for raw in first[:MARKED_LINES])
