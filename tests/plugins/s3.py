"""S3-compatible storage for tests: one server for each test process, a prefix for each test."""

import uuid
from collections.abc import Iterator

import pytest

from detent.settings import Settings
from tests.ports import free_port
from verification.memory_directory import directory_in_memory
from verification.s3_server import ROLES, WRITER, Key, S3Server, s3_server


@pytest.fixture(scope="session")
def storage() -> Iterator[S3Server]:
    """A server with an empty bucket."""
    ports = [free_port() for _ in ROLES for _ in ("HTTP", "gRPC")]
    with directory_in_memory("detent-s3-") as directory, s3_server(directory, ports) as server:
        yield server


def use_key(monkeypatch: pytest.MonkeyPatch, key: Key) -> None:
    """Set the variables from which clients take their access key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key.id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key.secret)
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture
def bucket_settings(storage: S3Server, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings with a bucket that is empty below its prefix."""
    use_key(monkeypatch, WRITER)
    url = f"s3://{storage.bucket}/{uuid.uuid4().hex}"
    return Settings(blobs_url=url, blobs_endpoint=storage.endpoint)
