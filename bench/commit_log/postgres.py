"""The trial on PostgreSQL: submit, complete-and-claim-next and sequence, one round trip each."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import msgspec
import psycopg

from bench.commit_log.events import claimed, completed, encoding
from bench.commit_log.job_batch import RESULT_TEXT, created_body, new_jobs
from bench.commit_log.variants import MAX_RUNNING, Variant
from detent.store.postgres.address import read_address
from detent.store.postgres.connection import Connection, Query, ready
from detent.store.statements import parse, statement

WORKER = "bench"
#: How many jobs are submitted in one call, as the other tools do in the comparison.
IN_BULK = 1_000
IDLE_S = 0.002
BEGIN, COMMIT = Query(b"BEGIN ISOLATION LEVEL READ COMMITTED"), Query(b"COMMIT")
#: How a body is written, and how it is read as JSON.
JSON = {"text": "body::json", "jsonb": "body::json", "bytea": "convert_from(body, 'UTF8')::json"}
BODY = {"text": "({})", "jsonb": "({})::jsonb", "bytea": "convert_to({}, 'UTF8')"}
decode = msgspec.json.Decoder().decode


def _file(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def schema(variant: Variant) -> str:
    storage = "" if variant.compressed else "ALTER TABLE commits ALTER body SET STORAGE EXTERNAL;"
    where = "WHERE worker IS NULL" if variant.partial else ""
    given = {"body": variant.body, "storage": storage, "where": where, "json": JSON[variant.body]}
    text = _file("schema.sql")
    for name, value in {**given, "fillfactor": str(variant.fillfactor)}.items():
        text = text.replace("{" + name + "}", value)
    return text


def create(url: str, variant: Variant) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schema(variant).encode())
        if variant.limit:
            limited = variant.lanes[-1]
            row = (limited, MAX_RUNNING)
            connection.execute("INSERT INTO lane_limits VALUES (%s, %s, 0)", row)


@cache
def statements(body: str) -> Mapping[str, Callable[..., Query]]:
    """The statements, with the conversion of a body to the type of its column."""
    before, after = BODY[body].split("{}")
    found = {}
    for each in parse(_file("statements.sql")):
        text = each.text.replace("BODY(:body::text)", f"{before}:body::text{after}")
        text = text.replace("BODY('['", f"{before}'['").replace(
            "|| ']') FROM", f"|| ']'{after} FROM"
        )
        found[each.name] = ready(statement(each.name, text))
    return found


def array(values: Iterable[str | int | None]) -> str:
    """An array as PostgreSQL reads it."""
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: str | int | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "NULL" if value is None else str(value)


def connect(url: str) -> Connection:
    return Connection(read_address(url))


class Held(NamedTuple):
    """A job that this worker has claimed."""

    id: str
    fence: int
    lane: str
    rank: int
    payload: Any


class Client:
    """Submits, or works on, one connection."""

    def __init__(self, url: str, variant: Variant) -> None:
        self.variant = variant
        self.connection = connect(url)
        self._sql = statements(variant.body)
        self._begin = self._sql["begin"](bitmap_scans=variant.bitmap_scans, plans=variant.plans)
        self._wake = self._sql["wake"]()
        ends = encoding(variant.entries, completed(WORKER))
        claims = encoding(variant.entries, claimed(WORKER))
        self._templates = {
            **{f"end_{name}": value for name, value in ends._asdict().items()},
            **{f"claim_{name}": value for name, value in claims._asdict().items()},
        }

    def close(self) -> None:
        self.connection.close()

    def submit(self, count: int) -> None:
        jobs = new_jobs(self.variant, count)
        ids, intents, lanes, ranks, dues, keys, payloads = map(array, zip(*jobs, strict=True))
        given = {"ids": ids, "intents": intents, "lanes": lanes, "ranks": ranks, "dues": dues}
        query = self._sql["submit"](
            **given,
            keys=keys,
            payloads=payloads,
            events=count,
            body=created_body(self.variant, jobs),
        )
        self.connection.run([BEGIN, self._begin, query, COMMIT])

    def work(
        self, held: list[Held], size: int, lows: Mapping[str, int] | None = None
    ) -> tuple[int, list[Held]]:
        """Complete what is held and claim more: how many were accepted, and the new ones."""
        lanes = self.variant.lanes
        query = self._sql["work"](
            ids=array([job.id for job in held]),
            fences=array([job.fence for job in held]),
            results=array([RESULT_TEXT] * len(held)),
            worker=WORKER,
            lanes=array(lanes),
            lows=array([(lows or {}).get(lane, 0) for lane in lanes]),
            size=size,
            keep_payload="true" if self.variant.keep_payload else "false",
            **self._templates,
        )
        rows = self.connection.run([BEGIN, self._begin, query, self._wake, COMMIT])[2].rows
        claims = [
            Held(id, fence, lane, rank, decode(payload))
            for _, id, fence, lane, rank, payload in rows
            if id is not None
        ]
        return rows[0][0], claims


def submit_all(url: str, variant: Variant, count: int) -> float:
    """Seconds to submit all jobs, one call after another."""
    client = Client(url, variant)
    begun = time.perf_counter()
    for start in range(0, count, IN_BULK):
        client.submit(min(IN_BULK, count - start))
    took = time.perf_counter() - begun
    client.close()
    return took


def drain(url: str, variant: Variant, count: int, batch: int) -> float:
    """Seconds until all jobs are done. Each connection has one batch in flight."""
    clients = [Client(url, variant) for _ in range(variant.in_flight)]
    done: list[int] = []
    failures: list[BaseException] = []

    def run(client: Client) -> None:
        held: list[Held] = []
        try:
            while held or sum(done) < count:
                accepted, held = client.work(held, batch)
                done.append(accepted)
                if not accepted and not held:
                    time.sleep(IDLE_S)
        except BaseException as error:
            failures.append(error)
            done.append(count)

    threads = [threading.Thread(target=run, args=(each,)) for each in clients]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    for client in clients:
        client.close()
    if failures:
        raise failures[0]
    return took
