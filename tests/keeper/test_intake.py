"""Transactional enqueue: work is submitted once, together with the rows of the transaction."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from detent import intake_row
from detent.engine import Engine
from detent.errors import Invalid, NotFound
from detent.keeper import intake_drain
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller, call
from detent.settings import Settings
from detent.store.store_url import open_store
from detent.store.types import Query
from detent.testing.audit import audit

Rows = list[dict[str, Any]]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "detent.db")
    found: str = request.getfixturevalue("postgres_url")
    return found


@contextmanager
def installation(url: str, data: Path) -> Iterator[Core]:
    store = open_store(url)
    yield Core(store, Engine(store), Settings(store_data_dir=str(data)), {"bill": {}})
    store.close()


@pytest.fixture
def connections() -> Iterator[list[Any]]:
    """Connections of other programs. They are closed after the store: closing one to an SQLite file
    releases the locks that this process holds on the file."""
    opened: list[Any] = []
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def core(url: str, tmp_path: Path, connections: list[Any]) -> Iterator[Core]:
    with installation(url, tmp_path) as made:
        yield made
        audit(made.store)


@pytest.fixture
def theirs(core: Core, url: str, connections: list[Any]) -> Any:
    """The connection of the other program, with its own table."""
    opened: Any = psycopg.connect(url) if url.startswith("postgresql:") else sqlite3.connect(url)
    opened.execute("CREATE TABLE orders (number integer)")
    opened.commit()
    connections.append(opened)
    return opened


@pytest.fixture
def row(url: str) -> Callable[..., tuple[str, Any]]:
    style = "format" if url.startswith("postgresql:") else "qmark"
    return partial(intake_row, style=style)


def tasks(core: Core) -> Rows:
    with core.store.read() as view:
        return [dict(each) for each in view.page(Query("tasks", limit=1_000))]


def test_a_submission_is_committed_with_the_rows_beside_it(
    core: Core, theirs: Any, row: Callable[..., Any]
) -> None:
    theirs.execute("INSERT INTO orders VALUES (7)")
    theirs.execute(*row("bill", {"order": 7}, project="shop", title="Bill 7"))
    assert intake_drain.run(core) == 0  # not committed, so it is not visible
    theirs.commit()
    assert intake_drain.run(core) == 1
    (task,) = tasks(core)
    assert (task["project"], task["title"], task["payload"]) == ("shop", "Bill 7", {"order": 7})
    assert (task["state"], task["created_by"]) == ("queued", "intake")
    assert intake_drain.run(core) == 0


def test_a_rolled_back_submission_does_not_exist(
    core: Core, theirs: Any, row: Callable[..., Any]
) -> None:
    theirs.execute(*row("bill"))
    theirs.rollback()
    assert intake_drain.run(core) == 0
    assert tasks(core) == []


def test_several_keepers_submit_each_row_once(
    core: Core, theirs: Any, row: Callable[..., Any], url: str, tmp_path: Path
) -> None:
    for number in range(300):
        theirs.execute(*row("bill", {"order": number}))
    theirs.commit()

    def drain() -> None:
        with installation(url, tmp_path) as another:
            while intake_drain.run(another):
                pass

    threads = [Thread(target=drain) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(each["payload"]["order"] for each in tasks(core)) == list(range(300))


def test_a_key_makes_one_task_of_two_rows(core: Core, theirs: Any, row: Callable[..., Any]) -> None:
    for _ in range(2):
        theirs.execute(*row("bill", {"order": 7}, idempotency_key="order-7"))
    theirs.commit()
    assert intake_drain.run(core) == 2
    assert len(tasks(core)) == 1


@pytest.mark.parametrize(
    ("operation", "body", "reason"),
    [
        ("submit_task", '{"intent": "nothing"}', "intent must be one of bill"),
        ("submit_task", '{"intent": "bill", "colour": 1}', "colour is not a known field"),
        ("submit_task", '{"intent": "bill", "depends_on": ["gone"]}', "gone"),
        ("submit_task", "[1]", "body must be a JSON object"),
        ("submit_task", "{", "body is not JSON"),
        ("submit_task", "[" * 5_000 + "]" * 5_000, "body is not JSON"),
        ("cancel_task", '{"task_id": "x"}', "operation must be one of"),
    ],
)
def test_a_refused_row_keeps_its_reason_and_blocks_no_other(
    core: Core, theirs: Any, row: Callable[..., Any], operation: str, body: str, reason: str
) -> None:
    statement, _ = row("bill")
    theirs.execute(statement, (operation, body, None))
    theirs.execute(*row("bill", {"order": 8}))
    theirs.commit()
    intake_drain.run(core)
    assert [each["payload"] for each in tasks(core)] == [{"order": 8}]
    ((kept, error),) = theirs.execute("SELECT body, error FROM intake").fetchall()
    assert kept == body
    assert reason in error
    assert intake_drain.run(core) == 0  # it is not retried


def test_a_row_that_the_store_refuses_blocks_no_other(
    core: Core, theirs: Any, row: Callable[..., Any]
) -> None:
    theirs.execute(*row("bill", id="order-7"))
    theirs.commit()
    intake_drain.run(core)
    call("cancel_task", core, OWNER, task_id="order-7")
    call("delete_task", core, OWNER, task_id="order-7")
    theirs.execute(*row("bill", {"order": 6}))
    theirs.execute(*row("bill", id="order-7"))
    theirs.execute(*row("bill", {"order": 8}))
    theirs.commit()
    assert intake_drain.run(core) == 3
    assert sorted(each["payload"]["order"] for each in tasks(core)) == [6, 8]
    (refused,) = call("inbox", core, OWNER)["refused"]
    assert refused["code"] == "task_exists"
    assert "belonged to something that was deleted" in refused["detail"]
    assert intake_drain.run(core) == 0


def test_a_refused_row_is_in_the_inbox_until_it_is_dropped(
    core: Core, theirs: Any, row: Callable[..., Any]
) -> None:
    core.intents = {"bill": {"arguments": {"type": "object", "required": ["order"]}}}
    theirs.execute(*row("bill", {"number": 7}, project="shop"))
    theirs.execute(*row("bill", {"order": 8}))
    theirs.execute(*row("fly", {}, idempotency_key="k"))
    theirs.commit()
    intake_drain.run(core)
    assert [each["payload"] for each in tasks(core)] == [{"order": 8}]
    first, second = call("inbox", core, OWNER)["refused"]
    assert (first["project"], first["intent"], first["operation"]) == (
        "shop",
        "bill",
        "submit_task",
    )
    assert (first["code"], first["field"]) == ("invalid", "payload.order")
    assert "payload.order is missing" in first["detail"]
    assert (second["code"], second["field"], second["idempotency_key"]) == (
        "unknown_intent",
        "intent",
        "k",
    )
    assert call("list_refused", core, OWNER)["items"] == [first, second]
    shop = Caller("shop", project="shop")
    assert call("inbox", core, shop)["refused"] == [first]
    assert call("inbox", core, OWNER, project="shop")["refused"] == [first]
    with pytest.raises(NotFound):
        call("drop_refused", core, shop, intake_id=second["id"])
    dropped = call("drop_refused", core, shop, intake_id=first["id"])
    assert dropped == {"id": first["id"], "outcome": "deleted"}
    assert call("inbox", core, OWNER)["refused"] == [second]
    with pytest.raises(NotFound):
        call("drop_refused", core, OWNER, intake_id=first["id"])


def test_a_payload_that_is_not_json_is_refused_immediately() -> None:
    with pytest.raises(Invalid, match="The payload is not valid JSON"):
        intake_row("bill", {"when": object()})
    with pytest.raises(Invalid, match="style must be one of"):
        intake_row("bill", style="colon")
