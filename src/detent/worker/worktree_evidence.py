"""The evidence of a worktree or clone: its diff, and the changed images before and after.

git runs in the agent's sandbox. File names are the agent's: an image whose path cannot be the name
of evidence is left out, and the diff still contains it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from detent.errors import Invalid
from detent.operations.evidence import checked_name
from detent.operations.review_diffs import DIFF_FILE
from detent.operations.review_rows import IMAGES_AFTER, IMAGES_BEFORE
from detent.review.file_kinds import is_image
from detent.worker.git_command import WorkspaceFailed
from detent.worker.run_files import DEEPEST, Kept, RunFiles
from detent.worker.workspaces import Staged

#: The directory of the evidence that contains the images.
IMAGES = "images"
MAX_IMAGES = 20
MAX_IMAGE_BYTES = 5_000_000
REGULAR = ("100644", "100755")


class ImageBlob(NamedTuple):
    """The content of an image, before or after the change."""

    #: The name of the evidence.
    name: str
    #: The name that git gives the content.
    blob: str


def keep_changes(staged: Staged, files: RunFiles) -> list[Kept]:
    """Store the diff, also an empty one, and the changed images.

    What the agent left under these names is replaced.
    """
    files.discard(IMAGES)
    kept = [files.keep(DIFF_FILE, staged.diff())]
    for image in changed_images(staged):
        content = _content(staged, image)
        if content is not None:
            kept.append(files.keep_below(image.name.split("/"), content))
    return kept


def changed_images(staged: Staged) -> Iterator[ImageBlob]:
    """The contents of the first changed images."""
    raw = staged.git(
        *("diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames"),
        *("--no-ext-diff", "--no-relative", staged.base),
    )
    fields = iter(raw.split(b"\0")[:-1])
    found = 0
    for facts, path in zip(fields, fields, strict=False):
        name = path.decode("utf-8", "replace")
        if found == MAX_IMAGES:
            return
        if not is_image(name) or not _can_be_named(name):
            continue
        found += 1
        old_mode, new_mode, old, new, _ = facts.decode("ascii").removeprefix(":").split(" ")
        if old_mode in REGULAR:
            yield ImageBlob(IMAGES_BEFORE + name, old)
        if new_mode in REGULAR:
            yield ImageBlob(IMAGES_AFTER + name, new)


def _can_be_named(path: str) -> bool:
    name = IMAGES_BEFORE + path
    try:
        checked_name(name)
    except Invalid:
        return False
    return "\N{REPLACEMENT CHARACTER}" not in name and name.count("/") <= DEEPEST


def _content(staged: Staged, image: ImageBlob) -> bytes | None:
    """The content of an image; None if it is too large or cannot be read."""
    try:
        if int(staged.git("cat-file", "-s", image.blob)) > MAX_IMAGE_BYTES:
            return None
        return staged.git("cat-file", "blob", image.blob)
    except (WorkspaceFailed, ValueError):
        return None
