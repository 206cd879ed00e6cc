"""Evidence: the files of runs, found by run and name, read from the blob store, added manually.

The content is untrusted: it is served with a media type that no browser executes or renders.
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
from detent.operations.manual_runs import MANUAL_PREFIX
from detent.operations.registry import Caller
from detent.store.types import Query

LONGEST_NAME = 200
#: One part of a name: not hidden, not `..`, without control characters.
PART = re.compile(r"[^./\x00-\x1f\x7f][^/\x00-\x1f\x7f]*")
ANY = "application/octet-stream"
#: Media types that are served as they are; other text is served as plain text, the rest as bytes.
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
    """An evidence file, with a media type that is safe to serve."""

    file: str
    kind: str
    sha256: str
    size: int
    media_type: str


def find_evidence(core: Core, caller: Caller, run_id: str, file: str) -> Found:
    """The evidence file of a run with this name."""
    core.run(caller, run_id)
    with core.store.read() as view:
        rows = view.page(Query("evidence", {"run_id": run_id, "file": file}, limit=1))
    if not rows:
        raise NotFound(
            f"Run {run_id} has no evidence {file!r}.", hint=f"See `detent evidence list {run_id}`."
        )
    row = rows[0]
    known = (row["kind"], row["sha256"], row["size"])
    return Found(file, *known, safe_type(row["media_type"]))


def read_evidence(core: Core, found: Found) -> Iterator[bytes]:
    """The content in chunks. A missing blob is refused before the first chunk."""
    try:
        return core.store.blobs.read(found.sha256)
    except NotFound:
        raise NotFound(
            f"The content of {found.file!r} has been deleted.",
            hint="Its size and SHA-256 are still in the task's events.",
        ) from None


def safe_type(media_type: str) -> str:
    """The media type to serve: never one that a browser would execute or render as a page."""
    plain = media_type.partition(";")[0].strip().lower()
    if plain in SAFE:
        return plain
    return "text/plain" if plain.startswith("text/") else ANY


def attach_evidence(
    core: Core, caller: Caller, run_id: str, name: str, file: BinaryIO
) -> schemas.Evidence:
    """Add a file to a run manually; refused while a worker holds the run's job."""
    checked_name(name)
    run = core.run(caller, run_id)
    job, _ = core.job(caller, run["job_id"])
    with core.store.read() as view:
        if view.page(Query("evidence", {"run_id": run_id, "file": name}, limit=1)):
            raise Refused(
                f"Run {run_id} already has evidence {name!r}.",
                code="evidence_exists",
                hint="Choose another name.",
            )
    blob = core.store.blobs.put(file)
    media_type = mimetypes.guess_type(name)[0] or ANY
    added = (run_id, name, type_of(name).value, blob.sha256, blob.size, media_type)
    core.engine.do(_command(job, run_id, added), caller.actor)
    with core.store.read() as view:
        (row,) = view.page(Query("evidence", {"run_id": run_id, "file": name}, limit=1))
    return cast(schemas.Evidence, views.shown(row))


def _command(job: Job, run_id: str, added: tuple[Any, ...]) -> c.Command:
    """A manual run is added to under its own claim, any other only while no claim holds its job."""
    if (
        job.state == "running"
        and str(job.worker).startswith(MANUAL_PREFIX)
        and job.run_id == run_id
    ):
        return c.AddEvidence(c.Grant(job.id, job.fence, str(job.nonce)), *added)
    return c.AttachEvidence(job.id, *added)


def checked_name(name: str) -> str:
    """The name, if it is a relative path without hidden parts."""
    if len(name) > LONGEST_NAME or not all(PART.fullmatch(part) for part in name.split("/")):
        form = f"a file name of at most {LONGEST_NAME} characters, without hidden parts"
        raise Invalid(
            f"The name must be {form}, not {name[:100]!r}.",
            field="file",
            given=name,
            allowed=(form,),
        )
    return name
