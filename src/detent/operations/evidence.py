"""The files that runs left behind: found by run and name, read from the blobs, added by hand.

What they hold is hostile: whoever serves them sends them as something that no program acts on.
"""

import mimetypes
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from detent import views
from detent.errors import Invalid, NotFound, Refused
from detent.kernel import commands as c
from detent.kernel.entities import Job
from detent.kernel.evidence_types import type_of
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.manual import HAND
from detent.operations.registry import Caller
from detent.store.types import Query

LONGEST_NAME = 200
#: One part of a name: not hidden, not `..`, nothing that a terminal would obey.
PART = re.compile(r"[^./\x00-\x1f\x7f][^/\x00-\x1f\x7f]*")
ANY = "application/octet-stream"
#: Types that may be told as they are; other text is plain text, and all else is just bytes.
SAFE = frozenset(
    [
        "application/gzip",
        "application/json",
        "application/pdf",
        "application/zip",
        "image/gif",
        "image/jpeg",
        "image/png",
        "image/webp",
        "text/csv",
        "text/markdown",
        "text/plain",
    ]
)


class Found(NamedTuple):
    """A piece of evidence, with a media type that is safe to tell."""

    file: str
    kind: str
    sha256: str
    size: int
    media_type: str


def find_evidence(core: Core, caller: Caller, run_id: str, file: str) -> Found:
    """The evidence of a run under this name."""
    core.run(caller, run_id)
    with core.store.read() as view:
        rows = view.page(Query("evidence", {"run_id": run_id, "file": file}, limit=1))
    if not rows:
        raise NotFound(f"The run {run_id} has no evidence {file!r}.")
    row = rows[0]
    known = (row["kind"], row["sha256"], row["size"])
    return Found(file, *known, safe_type(row["media_type"]))


def read_evidence(core: Core, found: Found) -> Iterator[bytes]:
    """Its bytes, some at a time. What is no longer there is refused before the first."""
    try:
        return core.store.blobs.read(found.sha256)
    except NotFound:
        raise NotFound(
            f"The bytes of {found.file!r} are not kept any more.",
            hint="Its size and SHA-256 are still in the history.",
        ) from None


def safe_type(media_type: str) -> str:
    """What a browser is told: never a type that it would run or render as a page."""
    plain = media_type.partition(";")[0].strip().lower()
    if plain in SAFE:
        return plain
    return "text/plain" if plain.startswith("text/") else ANY


def attach_evidence(
    core: Core, caller: Caller, run_id: str, name: str, file: BinaryIO
) -> schemas.Evidence:
    """Add a file to a run by hand; while a worker holds its job that is refused."""
    checked_name(name)
    run = core.run(caller, run_id)
    job, _ = core.job(caller, run["job_id"])
    with core.store.read() as view:
        if view.page(Query("evidence", {"run_id": run_id, "file": name}, limit=1)):
            raise Refused(f"The run has evidence {name!r} already.", code="evidence_exists")
    blob = core.store.blobs.put(file)
    media_type = mimetypes.guess_type(name)[0] or ANY
    added = (run_id, name, type_of(name).value, blob.sha256, blob.size, media_type)
    core.engine.do(_command(job, run_id, added), caller.actor)
    with core.store.read() as view:
        (row,) = view.page(Query("evidence", {"run_id": run_id, "file": name}, limit=1))
    return cast(schemas.Evidence, views.shown(row))


def _command(job: Job, run_id: str, added: tuple[Any, ...]) -> c.Command:
    """A run by hand is added to under its own claim, any other only when nobody holds its job."""
    if job.state == "running" and str(job.worker).startswith(HAND) and job.run_id == run_id:
        return c.AddEvidence(c.Grant(job.id, job.fence, str(job.nonce)), *added)
    return c.AttachEvidence(job.id, *added)


def checked_name(name: str) -> str:
    """The name, if it can stand under a directory: parts with a slash between them."""
    if len(name) > LONGEST_NAME or not all(PART.fullmatch(part) for part in name.split("/")):
        form = f"a file name of at most {LONGEST_NAME} characters, without hidden parts"
        raise Invalid(f"The name must be {form}.", field="file", given=name, allowed=(form,))
    return name
