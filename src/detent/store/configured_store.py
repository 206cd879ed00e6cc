"""Opens the store of an installation: the database, its bucket and its replica if they are set."""

from detent.errors import Misconfigured
from detent.settings import Settings
from detent.store.port import Store
from detent.store.store_url import is_postgres, open_store


def open_configured(settings: Settings) -> Store:
    """Open the store that the settings name."""
    store = open_store(settings.url)
    try:
        if settings.blobs_url:
            use_bucket(store, settings)
        if settings.store_replica_url:
            use_replica(store, settings)
    except BaseException:
        store.close()
        raise
    return store


def use_replica(store: Store, settings: Settings) -> None:
    """Read lists, counts, metrics and the feed from the replica."""
    if not (is_postgres(settings.url) and is_postgres(settings.store_replica_url)):
        raise Misconfigured(
            "store.replica_url is set, but only a PostgreSQL store has a replica.",
            setting="store.replica_url",
            hint="Set it to the postgresql:// URL of a standby of store.url, or remove it.",
        )
    from detent.store.postgres import PostgresStore
    from detent.store.postgres.replica import Replica

    assert isinstance(store, PostgresStore)
    max_lag_us = settings.store_replica_max_lag_ms * 1_000
    store.replica = Replica(settings.store_replica_url, store, max_lag_us)


def use_bucket(store: Store, settings: Settings) -> None:
    """Keep blobs, and the output of ended runs, in the bucket."""
    from detent.store.s3.bucket import Bucket
    from detent.store.s3.bucket_blobs import BucketBlobs
    from detent.store.s3.bucket_outputs import BucketOutputs

    def now() -> int:
        with store.read() as view:
            return view.now()

    bucket = Bucket(settings.blobs_url, settings.blobs_endpoint, settings.blobs_region)
    store.blobs = BucketBlobs(bucket, store.blobs, now)
    if store.outputs is not None:
        store.outputs = BucketOutputs(bucket, store.outputs)
