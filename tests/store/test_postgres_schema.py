"""The schema of the PostgreSQL store: its states, its columns, and the plans of its statements."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from detent.kernel import state
from detent.kernel.lifecycles import LIFECYCLES
from detent.store.paging import COLUMNS
from detent.store.port import TABLES
from detent.store.postgres import PostgresStore, schema
from detent.store.postgres.connection import numbered
from detent.store.postgres.reading import SQL
from detent.store.rows import columns
from detent.store.sqlite import schema as sqlite_schema

CREATE = re.compile(r"^CREATE TABLE (\w+) \((.*?)^\)", re.MULTILINE | re.DOTALL)
COLUMN = re.compile(r"^    (\w+) (?:text|bigint|integer|boolean|bytea|double|timestamptz)", re.M)


@pytest.fixture(scope="module")
def database(postgres_server: object) -> Iterator[psycopg.Connection]:
    """An empty database with the present schema."""
    from detent.testing.postgres import Cluster

    assert isinstance(postgres_server, Cluster)
    url = postgres_server.create_database("detent_schema")
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    postgres_server.drop_database("detent_schema")
