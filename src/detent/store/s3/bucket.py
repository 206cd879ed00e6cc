"""One bucket of S3-compatible storage, below a prefix: the requests that detent sends, and errors.

Uses obstore, which is an optional package. Credentials come from the environment (AWS_*) or from
the machine, as for other S3 clients.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from detent.errors import Misconfigured, Unavailable
from detent.store.blobs import CHUNK_BYTES

if TYPE_CHECKING:
    from obstore.store import S3Config

URL = "blobs.url"
#: The time of one request, and how long and how often a failed one is repeated.
REQUEST_S, RETRY_S = timedelta(seconds=60), timedelta(seconds=60)
MAX_RETRIES = 8
MAX_ERROR = 300
#: Errors of S3 that no repetition changes, and what to do.
REMEDIES = {
    "NoSuchBucket": "Create the bucket, or correct blobs.url.",
    "InvalidAccessKeyId": "The access key is unknown. Correct AWS_ACCESS_KEY_ID.",
    "SignatureDoesNotMatch": "The secret key is wrong. Correct AWS_SECRET_ACCESS_KEY.",
    "AccessDenied": "Allow the access key to list, read, write and delete objects of the bucket.",
}
#: Where a machine of Amazon gets keys of its role, if the environment has none.
METADATA_SERVICE = "169.254.169.254"
NO_KEYS = (
    "there are no access keys. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the "
    f"machine a role; the metadata service {METADATA_SERVICE} does not return keys"
)
#: The object that `check` writes and deletes.
CHECK_KEY = "detent-check"


class ObjectInfo(NamedTuple):
    """The key of an object, below the prefix, and its size."""

    key: str
    size: int


class Bucket:
    """Objects by their keys. A request for a missing object raises FileNotFoundError."""

    def __init__(self, url: str, endpoint: str = "", region: str = "") -> None:
        require_obstore()
        from obstore.store import S3Store

        name, prefix = parse_url(url)
        self.url = url
        # What is not given here comes from AWS_ENDPOINT_URL and AWS_REGION.
        config: S3Config = {}
        if endpoint:
            config["endpoint"] = endpoint
        if region:
            config["region"] = region
        self._store = S3Store(
            name,
            prefix=prefix or None,
            config=config,
            virtual_hosted_style_request=not endpoint,
            client_options={"allow_http": endpoint.startswith("http://"), "timeout": REQUEST_S},
            retry_config={"max_retries": MAX_RETRIES, "retry_timeout": RETRY_S},
        )

    def put(self, key: str, content: IO[bytes] | bytes) -> None:
        """Store an object; it is durable when the call returns."""
        with self._explained():
            self._store.put(key, content)

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside of the bucket."""
        with self._explained():
            self._store.copy(source, target)

    def read(self, key: str) -> Iterator[bytes]:
        """The content of an object in chunks; it is requested before the first one is."""
        with self._explained():
            stream = iter(self._store.get(key).stream(CHUNK_BYTES))
        return self._chunks(stream)

    def _chunks(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        while True:
            with self._explained():
                chunk = next(stream, None)
            if chunk is None:
                return
            yield bytes(chunk)

    def read_part(self, key: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start`, without `end`."""
        with self._explained():
            return bytes(self._store.get_range(key, start=start, end=end))

    def list(self, prefix: str, after: str = "") -> Iterator[ObjectInfo]:
        """Objects whose keys begin with a prefix that ends with a slash, after a key, in order."""
        with self._explained():
            pages = iter(self._store.list(prefix, offset=after or None))
        while True:
            with self._explained():
                page = next(pages, None)
            if page is None:
                return
            yield from (ObjectInfo(each["path"], each["size"]) for each in page)

    def delete(self, keys: Collection[str]) -> None:
        """Delete objects; those that are missing are ignored."""
        if keys:
            with self._explained():
                self._store.delete(sorted(keys))

    def check(self) -> None:
        """List objects, write one and delete it: a wrong configuration is reported early."""
        next(self.list(""), None)
        self.put(CHECK_KEY, b"detent")
        self.delete([CHECK_KEY])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise the errors of requests in detent's words."""
        from obstore.exceptions import BaseError, NotFoundError

        try:
            yield
        except FileNotFoundError:
            raise
        except (BaseError, OSError, ValueError) as error:
            text = str(error)
            code = next((each for each in REMEDIES if each in text), None)
            if code is not None:
                message = f"{self.url} cannot be used: {code}."
                raise Misconfigured(message, setting=URL, hint=REMEDIES[code]) from error
            if isinstance(error, NotFoundError):
                raise FileNotFoundError(text) from error
            why = NO_KEYS if METADATA_SERVICE in text else _short(text)
            message = f"{self.url} does not respond: {why}"
            raise Unavailable(message, retry_after_s=1) from error


def parse_url(url: str) -> tuple[str, str]:
    """The bucket and the prefix of `s3://bucket/prefix`."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise Misconfigured(
            f"{url!r} is not the address of a bucket.",
            setting=URL,
            hint="Write it as s3://BUCKET or s3://BUCKET/PREFIX; leave it empty for the store.",
        )
    return parts.netloc, parts.path.strip("/")


def require_obstore() -> None:
    """Raise Misconfigured if the optional package is missing."""
    if find_spec("obstore") is None:
        raise Misconfigured(
            "blobs.url is set, but the package obstore is not installed.",
            setting=URL,
            hint="Install it with: pip install 'detent[s3]'",
        )


def _short(text: str) -> str:
    """The first line of an error; obstore appends the responses of all attempts."""
    line = text.strip().splitlines()[0] if text.strip() else "no error text"
    return line[:MAX_ERROR]
