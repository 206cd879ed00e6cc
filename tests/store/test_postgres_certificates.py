"""A database server whose certificate is not valid: what the error says."""

from pathlib import Path

import pytest

from detent.errors import Unavailable
from detent.store.postgres import PostgresStore
from tests.cli.certificates import write_certificates
from verification.memory_directory import directory_in_memory
from verification.postgres_programs import binaries_of
from verification.postgres_server import Server

PARAMETERS = "hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert="


def start(directory: Path, certificate: str) -> Server:
    key = directory / f"{certificate}.key"
    key.chmod(0o600)
    settings = {
        "ssl": "on",
        "ssl_cert_file": str(directory / f"{certificate}.pem"),
        "ssl_key_file": str(key),
    }
    return Server.start(directory / "pg", settings=settings, binaries=binaries_of(15))


def test_an_expired_certificate_is_named_and_a_renewed_one_accepted() -> None:
    with directory_in_memory("detent-tls-") as directory:
        write_certificates(directory)

        def connect(server: Server) -> None:
            url = f"postgresql://postgres@localhost:{server.port}/postgres"
            PostgresStore(f"{url}?{PARAMETERS}{directory / 'ca.pem'}").close()

        for name in ("expired", "other"):
            with (
                start(directory, name) as server,
                pytest.raises(Unavailable, match="the certificate of the database server was"),
            ):
                connect(server)
        with start(directory, "good") as server:
            connect(server)
