"""Files, hunks and lines of a diff as responses of the review operations. Reads nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from detent.operations import schemas
from detent.review.diff_comparison import FilePair, LineRun, compared
from detent.review.file_kinds import generated_kind, is_image
from detent.review.unified_diff import FileDiff, Line

#: The maximum numbers of lines and characters of a file in one response.
MAX_LINES, MAX_CHARACTERS = 50_000, 10_000_000
#: Where a worker stores the images of a worktree, before and after the change.
IMAGES_BEFORE, IMAGES_AFTER = "images/before/", "images/after/"


def images_in(
    run_id: str, evidence: Iterable[Mapping[str, Any]]
) -> Mapping[str, schemas.EvidenceFile]:
    """By name, the evidence of a run that can be the content of an image."""
    return {
        row["file"]: {"run_id": run_id, "file": row["file"]}
        for row in evidence
        if row["run_id"] == run_id and row["file"].startswith((IMAGES_BEFORE, IMAGES_AFTER))
    }


def diff_file(file: FileDiff, images: Mapping[str, schemas.EvidenceFile]) -> schemas.DiffFile:
    """A file of a diff."""
    before = file.old_path or file.path
    kind = generated_kind(file)
    return {
        "path": file.path,
        "old_path": file.old_path,
        "status": file.status,
        "added": file.added,
        "removed": file.removed,
        "binary": file.binary,
        "generated": kind is not None,
        "generated_kind": kind,
        "old_mode": file.old_mode,
        "new_mode": file.new_mode,
        "image": is_image(file.path),
        "image_before": images.get(IMAGES_BEFORE + before),
        "image_after": images.get(IMAGES_AFTER + file.path),
        "lines": file.size,
    }


def changed_file(pair: FilePair) -> schemas.ChangedFile:
    """A file that differs between two diffs."""
    comparison = compared(pair)
    return {
        "path": pair.path,
        "old_path": pair.old_path,
        "added": comparison.added,
        "removed": comparison.removed,
        "binary": any(each is not None and each.binary for each in pair),
    }


def hunks_of(file: FileDiff) -> tuple[list[schemas.ReviewHunk], bool]:
    """The hunks of a file, and whether lines were left out because there are too many."""
    numbered = (
        (each.before_start, each.before_count, each.after_start, each.after_count)
        for each in file.hunks
    )
    headed = zip(numbered, file.hunks, strict=True)
    return _hunks((numbers, hunk.heading, hunk.lines) for numbers, hunk in headed)


def runs_shown(runs: Sequence[LineRun]) -> tuple[list[schemas.ReviewHunk], bool]:
    """The runs of a comparison as hunks."""
    return _hunks((run[:4], "", run.lines) for run in runs)


def _hunks(
    given: Iterable[tuple[tuple[int, int, int, int], str, Sequence[Line]]],
) -> tuple[list[schemas.ReviewHunk], bool]:
    limit = ResponseLimit()
    found: list[schemas.ReviewHunk] = []
    for (before_start, before_count, after_start, after_count), heading, lines in given:
        if limit.reached:
            break
        found.append(
            {
                "before_start": before_start,
                "before_count": before_count,
                "after_start": after_start,
                "after_count": after_count,
                "heading": heading,
                "lines": [line._asdict() for line in limit.within(lines)],  # type: ignore[misc]
            }
        )
    return found, limit.reached


class ResponseLimit:
    """Counts the lines and characters of a response up to the limits."""

    def __init__(self) -> None:
        self.lines, self.characters = MAX_LINES, MAX_CHARACTERS
        self.reached = False

    def within(self, lines: Iterable[Line]) -> Iterator[Line]:
        """The lines up to the limit."""
        for line in lines:
            self.lines, self.characters = self.lines - 1, self.characters - len(line.text)
            if self.lines < 0 or self.characters < 0:
                self.reached = True
                return
            yield line
