"""Two processes change the same named rows on PostgreSQL: the second sees the first change."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from detent.engine import Engine
from detent.engine.claims import ClaimRequest
from detent.errors import Unauthorized
from detent.kernel import commands as c
from detent.operations import run_tokens, sessions, tokens
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection
from detent.operations.registry import OWNER, Caller, Scope
from detent.settings import Settings
from detent.store.port import WriteTransaction
from detent.store.store_url import open_store
from tests.store.postgres_scene import beside, until

WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


@pytest.fixture
def cores(postgres_url: str) -> Iterator[list[Core]]:
    """Two processes on one database."""
    stores = [open_store(postgres_url), open_store(postgres_url)]
    yield [Core(store, Engine(store), Settings(), {"dig": {}}) for store in stores]
    for store in stores:
        store.close()


@pytest.fixture
def behind(cores: list[Core], postgres_url: str) -> Callable[..., Any]:
    """The result of `second`, which begins after `first` has written and before it commits."""

    def play(first: Callable[[WriteTransaction], object], second: Callable[[], Any]) -> Any:
        ended: list[Any] = []

        def act() -> None:
            try:
                ended.append(second())
            except Exception as error:
                ended.append(error)

        thread = threading.Thread(target=act)
        with beside(postgres_url) as looking:
            with cores[0].store.write() as tx:
                first(tx)
                thread.start()
                until(lambda: looking.execute(WAITING).fetchone() == (1,), "the second waits")
            thread.join()
        return ended[0]

    return play


def test_one_of_two_is_elected(cores: list[Core], behind: Callable[..., Any]) -> None:
    one, two = (LeaderElection(core, "keeper", f"process {n}") for n, core in enumerate(cores))
    assert behind(one._elect, two.acquire) is None
    assert one.acquire() is not None


def test_a_code_is_exchanged_once(cores: list[Core], behind: Callable[..., Any]) -> None:
    token = cores[0].engine.transaction(lambda tx: tokens.issue(tx, OWNER))
    key = tokens.digest_of(token)
    code = cores[0].engine.transaction(lambda tx: tokens.issue(tx, OWNER, "code", 60, token=key))

    def exchange(tx: WriteTransaction) -> None:
        assert tokens.digest_of(code) in tx.rows_for_update("tokens")
        tx.put_rows("tokens", {tokens.digest_of(code): None})

    assert isinstance(behind(exchange, lambda: sessions.exchange(cores[1], code)), Unauthorized)


def test_a_revoked_token_stays_revoked(cores: list[Core], behind: Callable[..., Any]) -> None:
    engine = cores[0].engine
    engine.do(c.SubmitJob("j", "p", "dig"), c.Actor("person"))
    (claimed,) = engine.claim(ClaimRequest("w", "nonce", 1))
    run_id = str(claimed.job.run_id)
    token = run_tokens.issue_run_token(cores[0], claimed.grant, run_id)
    caller = Caller("agent", frozenset({Scope.RUN}), "p", run_id=run_id, fence=claimed.grant.fence)

    def revoke(tx: WriteTransaction) -> None:
        assert tokens.digest_of(token) in tx.rows_for_update("tokens")
        tx.put_rows("tokens", {tokens.digest_of(token): None})

    found = behind(revoke, lambda: run_tokens.count_request(cores[1], caller, "writes", 100))
    assert isinstance(found, Unauthorized)
    with cores[0].store.read() as view:
        assert view.rows("tokens") == {}
