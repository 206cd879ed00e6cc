"""Blobs and output in a bucket of a real S3 server: the conformance checks, moves and errors."""

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from obstore.exceptions import GenericError

from detent.cli import doctor_checks
from detent.engine import Engine
from detent.errors import DetentError, Misconfigured, Unavailable
from detent.keeper import output_mover
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.output_times import SHARED_START
from detent.operations.run_output import read_output
from detent.settings import Settings
from detent.store.blobs import Blob, Piece
from detent.store.clock import TimeSource
from detent.store.configured_store import open_configured, use_bucket
from detent.store.memory import Database, MemoryStore
from detent.store.port import Store
from detent.store.postgres import PostgresStore
from detent.store.s3.bucket import Bucket, parse_url
from detent.store.s3.bucket_outputs import BucketOutputs
from detent.testing.clock import VirtualClock
from detent.testing.conformance import CHECKS, blobs, run
from detent.testing.conformance.work_actions import PERSON, claim_one, run_of, submit_job
from tests.plugins.s3 import use_key
from tests.ports import free_port
from verification.s3_server import READER, Key

OF_BLOBS = [name for name, check in CHECKS.items() if check.__module__ == blobs.__name__]
LATE_S = output_mover.AFTER_END_US / 1_000_000 + 1


def bucket_of(settings: Settings) -> Bucket:
    return Bucket(settings.blobs_url, settings.blobs_endpoint, settings.blobs_region)


@pytest.mark.parametrize("check", OF_BLOBS)
def test_blobs(check: str, bucket_settings: Settings) -> None:
    database = Database()

    def opened(clock: TimeSource) -> Store:
        store = MemoryStore(clock, database)
        use_bucket(store, bucket_settings)
        return store

    run(CHECKS[check], opened)
    assert not database.blobs, "every blob is in the bucket"


def test_blobs_of_the_database_are_still_read_and_removed(bucket_settings: Settings) -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    early = store.blobs.put(BytesIO(b"before there was a bucket"))
    use_bucket(store, bucket_settings)
    late = store.blobs.put(BytesIO(b"in the bucket"))
    assert b"".join(store.blobs.read(early.sha256)) == b"before there was a bucket"
    assert store.blobs.size(early.sha256) == early.size
    after = clock.now + 1
    assert store.blobs.old(after, "", 10) == sorted([early.sha256, late.sha256])
    assert store.blobs.old(after, "", 1) == [min(early.sha256, late.sha256)]
    both = sorted([early, late])
    assert store.blobs.remove([early.sha256, late.sha256], after) == both
    assert store.blobs.size(early.sha256) is None


def test_a_blob_that_is_stored_often_is_one_object(bucket_settings: Settings) -> None:
    clock = VirtualClock()
    store = MemoryStore(clock)
    use_bucket(store, bucket_settings)
    for _ in range(3):
        blob = store.blobs.put(BytesIO(b"the same report"))
        clock.advance(seconds=1)
    (only,) = bucket_of(bucket_settings).list("blobs/")
    assert only.key.startswith(f"blobs/{blob.sha256}/")


def test_a_blob_that_is_removed_while_it_is_stored_again_stays(
    bucket_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock()
    keeper, worker = (MemoryStore(clock) for _ in range(2))
    use_bucket(keeper, bucket_settings)
    use_bucket(worker, bucket_settings)
    data = b"removed and stored at the same time"
    blob = keeper.blobs.put(BytesIO(data))
    clock.advance(seconds=10)
    before = clock.now
    delete = Bucket.delete
    again: list[Blob] = []

    def store_first(bucket: Bucket, keys: list[str]) -> None:
        monkeypatch.setattr(Bucket, "delete", delete)
        again.append(worker.blobs.put(BytesIO(data)))
        delete(bucket, keys)

    monkeypatch.setattr(Bucket, "delete", store_first)
    keeper.blobs.remove([blob.sha256], before)
    assert again == [blob]
    assert b"".join(keeper.blobs.read(blob.sha256)) == data


# ---- output ----------------------------------------------------------------------------------


class Scene:
    """An installation on PostgreSQL with a bucket, and one ended run that has output."""

    def __init__(self, url: str, settings: Settings, directory: Path) -> None:
        self.clock = VirtualClock()
        self.store = PostgresStore(url, self.clock)
        assert self.store.outputs is not None
        self.live = self.store.outputs
        use_bucket(self.store, settings)
        self.bucket, self.data_dir = bucket_of(settings), directory
        made = replace(settings, store_data_dir=str(directory))
        self.core = Core(self.store, Engine(self.store), made)
        submit_job(self.core.engine)
        self.claimed = claim_one(self.core.engine)
        self.run_id = run_of(self.claimed)
        self.append(0, b"first line\n")
        self.append(11, b"second line\n")
        self.append(SHARED_START, b"times")

    def end(self) -> None:
        self.core.engine.do(c.CompleteRun(self.claimed.grant, self.run_id), PERSON)

    def append(self, offset: int, data: bytes) -> None:
        assert self.store.outputs is not None
        self.store.outputs.append([Piece(self.run_id, offset, data)])

    def output(self) -> bytes:
        return read_output(self.store, self.data_dir, self.run_id, 0)


@pytest.fixture
def scene(postgres_url: str, bucket_settings: Settings, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(postgres_url, bucket_settings, tmp_path)
    yield made
    made.store.close()


def test_output_is_moved_when_its_run_has_ended(scene: Scene) -> None:
    outputs = scene.store.outputs
    assert isinstance(outputs, BucketOutputs)
    assert output_mover.run(scene.core) == 0
    scene.end()
    assert output_mover.run(scene.core) == 0, "its worker may still send output"
    scene.clock.advance(seconds=LATE_S)
    assert output_mover.run(scene.core) == 1
    assert scene.live.runs("", 10) == []
    assert len(list(scene.bucket.list("output/"))) == 2
    whole = b"first line\nsecond line\n"
    for offset in range(len(whole) + 2):
        for limit in (1, 5, 100):
            assert outputs.read(scene.run_id, offset, limit) == whole[offset : offset + limit]
    assert outputs.read(scene.run_id, SHARED_START, 100) == b"times"
    assert outputs.runs("", 10) == [scene.run_id]
    assert outputs.runs(scene.run_id, 10) == []
    assert outputs.sizes("", 10) == [(scene.run_id, len(whole) + len(b"times"))]
    assert outputs.sizes(scene.run_id, 10) == []
    assert output_mover.run(scene.core) == 0
    outputs.remove([scene.run_id])
    assert outputs.runs("", 10) == []
    assert scene.output() == b""


@pytest.mark.parametrize("times", [1, 2])
def test_a_move_that_is_interrupted_is_repeated(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    scene.end()
    scene.clock.advance(seconds=LATE_S)
    with monkeypatch.context() as patch:
        patch.setattr(scene.live, "remove", _fail)
        for _ in range(times):
            with pytest.raises(Unavailable):
                output_mover.run(scene.core)
    assert scene.output() == b"first line\nsecond line\n"
    assert output_mover.run(scene.core) == 1
    assert scene.output() == b"first line\nsecond line\n"


def _fail(_: object) -> None:
    raise Unavailable("the connection was lost", retry_after_s=1)


def test_output_that_arrives_after_the_move_is_appended(scene: Scene) -> None:
    scene.end()
    scene.clock.advance(seconds=LATE_S)
    output_mover.run(scene.core)
    scene.append(11, b"second line\n")
    scene.append(23, b"third line\n")
    assert scene.output() == b"first line\nsecond line\n"
    assert read_output(scene.store, scene.data_dir, scene.run_id, 23) == b"third line\n"
    assert output_mover.run(scene.core) == 1
    assert scene.output() == b"first line\nsecond line\nthird line\n"


# ---- bad configuration -----------------------------------------------------------------------


def refused(settings: Settings) -> DetentError:
    with pytest.raises(DetentError) as refusal:
        bucket_of(settings).check()
    return refusal.value


def test_a_missing_bucket_is_named(bucket_settings: Settings) -> None:
    found = refused(replace(bucket_settings, blobs_url="s3://elsewhere"))
    assert isinstance(found, Misconfigured)
    assert "s3://elsewhere" in found.message
    assert "blobs.url" in str(found.hint)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        (READER, "write"),
        (Key("unknown", "x"), "AWS_ACCESS_KEY_ID"),
        (Key(READER.id, "wrong"), "AWS_SECRET_ACCESS_KEY"),
    ],
    ids=["read-only", "unknown key", "wrong secret"],
)
def test_a_key_that_is_refused_is_explained(
    bucket_settings: Settings, monkeypatch: pytest.MonkeyPatch, key: Key, hint: str
) -> None:
    use_key(monkeypatch, key)
    found = refused(bucket_settings)
    assert isinstance(found, Misconfigured)
    assert hint in str(found.hint)


def test_doctor_checks_the_bucket(bucket_settings: Settings) -> None:
    (good,) = doctor_checks.bucket(bucket_settings)
    (bad,) = doctor_checks.bucket(replace(bucket_settings, blobs_url="s3://elsewhere"))
    assert (good.well, bad.well) == (True, False)
    assert "NoSuchBucket" in bad.what
    assert list(doctor_checks.bucket(Settings())) == []


def test_storage_that_does_not_respond_is_tried_again_later(
    bucket_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.store.s3.bucket.MAX_RETRIES", 0)
    closed = replace(bucket_settings, blobs_endpoint=f"http://127.0.0.1:{free_port()}")
    found = refused(closed)
    assert isinstance(found, Unavailable)
    assert "does not respond" in found.message


def test_missing_keys_are_named(bucket_settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    made = bucket_of(bucket_settings)

    def put(*_: object) -> None:
        address = "http://169.254.169.254/latest/api/token"
        raise GenericError(f"Generic S3 error: Error performing PUT {address}: error sending")

    monkeypatch.setattr(made, "_store", SimpleNamespace(put=put))
    with pytest.raises(Unavailable, match=r"no access keys\. Set AWS_ACCESS_KEY_ID"):
        made.put("key", b"content")


@pytest.mark.parametrize("url", ["bucket", "https://host/bucket", "s3://", "s3://b?x=1"])
def test_an_address_that_is_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="not the address of a bucket"):
        parse_url(url)


def test_a_missing_package_says_what_to_install(
    bucket_settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("detent.store.s3.bucket.find_spec", lambda _: None)
    settings = replace(bucket_settings, store_data_dir=str(tmp_path), store_url="memory:")
    with pytest.raises(Misconfigured) as refusal:
        open_configured(settings)
    assert "detent[s3]" in str(refusal.value.hint)
