"""Checks of blobs: they are stored once, read back completely, and kept while they are used."""

from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from io import BytesIO

from detent.kernel import commands as c
from detent.store.blobs import CHUNK_BYTES, MAX_BLOB_BYTES, Blob
from detent.store.types import Query
from detent.testing.conformance.case import Case, check
from detent.testing.conformance.work_actions import (
    PERSON,
    SECOND_US,
    claim_one,
    code,
    do,
    refusal,
    run_of,
    submit_job,
    together,
)

#: Nothing, a little, exactly a chunk, and several of them with a rest.
CONTENTS = (
    b"",
    b"a",
    bytes(range(256)) * (CHUNK_BYTES // 256),
    b"\xff\x00'\\x" * (CHUNK_BYTES // 2),
)

OLD = b"old" * (CHUNK_BYTES // 2)


def put(case: Case, data: bytes) -> Blob:
    return case.store.blobs.put(BytesIO(data))


def got(case: Case, digest: str) -> bytes:
    return b"".join(case.store.blobs.read(digest))


class Endless(BytesIO):
    """A file without an end."""

    def read(self, size: int | None = -1, /) -> bytes:
        return bytes(size or 0)


class ChangingFile(BytesIO):
    """A file whose last bytes are others each time that it is read."""

    times = 0

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.times += 1
        super().seek(0)
        self.write(b"%06d" % self.times)
        return super().seek(offset, whence)


@check
def bytes_come_back_under_their_digest(case: Case) -> None:
    for data in CONTENTS:
        blob = put(case, data)
        assert blob == (sha256(data).hexdigest(), len(data))
        assert case.store.blobs.size(blob.sha256) == len(data)
        assert got(case, blob.sha256) == data
        assert b"".join(case.another().store.blobs.read(blob.sha256)) == data


@check
def a_blob_is_read_from_its_beginning(case: Case) -> None:
    file = BytesIO(b"from the beginning")
    file.seek(5)
    assert case.store.blobs.put(file).size == 18


@check
def what_is_not_there_is_refused_before_the_first_byte(case: Case) -> None:
    for digest in ("0" * 64, "", "../../etc/passwd", "A" * 64):
        assert case.store.blobs.size(digest) is None
        assert code(partial(case.store.blobs.read, digest)) == "not_found"


@check
def a_blob_over_the_limit_leaves_nothing(case: Case) -> None:
    assert code(partial(case.store.blobs.put, Endless())) == "too_large"
    assert case.store.blobs.old(1 << 62, "", 10) == []
    assert MAX_BLOB_BYTES == 64 * 1024 * 1024


@check
def a_file_that_changes_makes_no_wrong_blob(case: Case) -> None:
    try:
        blob = case.store.blobs.put(ChangingFile(b"x" * 10))
    except Exception:
        assert case.store.blobs.old(1 << 62, "", 10) == []
    else:
        assert sha256(got(case, blob.sha256)).hexdigest() == blob.sha256


@check
def the_same_bytes_are_kept_once_by_many(case: Case) -> None:
    data = CONTENTS[3]
    stores = [case.store, *(engine.store for engine in case.others(3))]
    blobs = together(*(partial(store.blobs.put, BytesIO(data)) for store in stores))
    assert len(set(blobs)) == 1
    assert got(case, blobs[0].sha256) == data
    assert case.store.blobs.old(1 << 62, "", 10) == [blobs[0].sha256]


@check
def old_blobs_are_listed_in_pages(case: Case) -> None:
    first = sorted(put(case, b"%d" % number).sha256 for number in range(5))
    case.clock.advance(seconds=10)
    late = put(case, b"late").sha256
    before = case.clock.now - SECOND_US
    assert list(pages(case, before, 2)) == first
    assert late in pages(case, case.clock.now + 1, 2)


def pages(case: Case, before: int, size: int) -> Iterator[str]:
    after = ""
    while found := case.store.blobs.old(before, after, size):
        assert len(found) <= size
        yield from found
        after = found[-1]


@check
def a_blob_that_was_put_again_is_not_removed_for_its_old_time(case: Case) -> None:
    old, again = put(case, OLD), put(case, b"again")
    case.clock.advance(seconds=10)
    before = case.clock.now - SECOND_US
    put(case, b"again")
    asked = [old.sha256, again.sha256, "0" * 64]
    assert case.store.blobs.remove(asked, before) == [old]
    assert case.store.blobs.size(old.sha256) is None
    assert got(case, again.sha256) == b"again"
    assert case.store.blobs.remove([], before) == []
    assert put(case, OLD) == old
    assert got(case, old.sha256) == OLD


@check
def a_blob_has_the_time_of_the_store(case: Case) -> None:
    """The store's time is ahead of the wall clock: a new blob is not older for that."""
    case.clock.advance(seconds=3_600)
    submit_job(case.engine)
    case.clock.set(case.clock.now - 3_600 * SECOND_US)
    put(case, b"new")
    with case.store.read() as view:
        assert case.store.blobs.old(view.now() - 60 * SECOND_US, "", 10) == []


@check
def evidence_says_which_blobs_are_used(case: Case) -> None:
    used, loose = put(case, b"used"), put(case, b"loose")
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    known = (claimed.grant, run_of(claimed), "a.log", "log", used.sha256, used.size)
    do(case.engine, c.AddEvidence(*known))
    with case.store.read() as view:
        assert view.used_blobs([used.sha256, loose.sha256]) == {used.sha256}
        assert view.used_blobs([]) == set()


@check
def ended_runs_are_found_by_their_ids(case: Case) -> None:
    submit_job(case.engine)
    claimed = claim_one(case.engine)
    run_id = run_of(claimed)
    case.engine.do(c.CompleteRun(claimed.grant, run_id), PERSON)
    with case.store.read() as view:
        (run,) = view.runs([run_id, "missing"])
        assert (run.id, run.state, run.job_id) == (run_id, "succeeded", claimed.job.id)
        assert list(view.runs([])) == []


@check
def a_person_adds_evidence_to_a_run_that_no_worker_holds(case: Case) -> None:
    job = submit_job(case.engine)
    claimed = claim_one(case.engine)
    run_id = run_of(claimed)
    known = ("a.log", "log", "0" * 64, 3)
    assert refusal(case.engine, c.AttachEvidence(job, run_id, *known)) == "held_by_worker"
    case.engine.do(c.CompleteRun(claimed.grant, run_id), PERSON)
    do(case.engine, c.AttachEvidence(job, run_id, *known))
    assert refusal(case.engine, c.AttachEvidence(job, "missing", *known)) == "unknown_run"
    other = submit_job(case.engine)
    assert refusal(case.engine, c.AttachEvidence(other, run_id, *known)) == "unknown_run"
    with case.store.read() as view:
        (row,) = view.page(Query("evidence", {"run_id": run_id}))
        assert (row["file"], row["size"]) == ("a.log", 3)
        (run,) = view.runs([run_id])
        assert run.state == "succeeded"
