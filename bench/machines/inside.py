"""On the machine of the database: starts PostgreSQL and PgBouncer there and plays the scenes.

`python -m bench.machines.inside ORDER` prints what was found as one line of JSON at the end.
"""

import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from bench.machines import scenes
from bench.machines.installation import Installation
from bench.machines.pooler import Pooler, pooler
from bench.machines.scenes import OURS, Size, place_for
from bench.workloads.jobs import directory
from bench.workloads.jobs_postgres import AS_IT_COMES
from verification.network import DATABASE, PREFIX, Machine, Unable
from verification.postgres_server import Pair, Server, primary_with_standby

#: Every client of this network is trusted: it exists for this run only.
LET_IN = f"host all all {PREFIX}0/24 trust\n"


class Stage:
    """The machines, the size of it all, and a directory."""

    def __init__(self, machines: dict[str, Machine], size: Size, place: Path) -> None:
        self.machines, self.size, self.place = machines, size, place
        self.address = machines[DATABASE].address
        self.settings = {**AS_IT_COMES, "listen_addresses": f"127.0.0.1,{self.address}"}

    def named(self, kind: str) -> list[Machine]:
        return [each for name, each in self.machines.items() if name.startswith(kind)]

    @contextmanager
    def server(self) -> Iterator[Server]:
        with Server.start(place_for(self.place, "pg"), settings=self.settings) as server:
            let_in(server)
            yield server

    @contextmanager
    def pair(self) -> Iterator[Pair]:
        with primary_with_standby(place_for(self.place, "pair"), settings=self.settings) as pair:
            for server in (pair.primary, pair.standby):
                let_in(server)
            yield pair

    @contextmanager
    def installed(self, url: str, console: str) -> Iterator[Installation]:
        """Two gateways and a keeper; workers come later."""
        place = place_for(self.place, f"i-{uuid.uuid4().hex[:8]}")
        with Installation(url, console, place) as made:
            for machine in self.named("gateway"):
                made.gateway(machine)
            made.keeper(*self.named("keeper"))
            yield made


def say(what: str) -> None:
    print(f"machines: {what}", file=sys.stderr, flush=True)


def let_in(server: Server) -> None:
    with (server.directory / "data" / "pg_hba.conf").open("a", encoding="utf-8") as rules:
        rules.write(LET_IN)
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")


def remote(stage: Stage, server: Server, database: str) -> str:
    return f"postgresql://postgres@{stage.address}:{server.port}/{database}"


def as_ours(url: str) -> str:
    """Under a name of our own, so that our connections are not taken for detent's."""
    return f"{url}{'&' if '?' in url else '?'}application_name={OURS}"


def on_one_server(stage: Stage) -> dict[str, Any]:
    """Throughput and a restart: straight to the server, then through the pooler."""
    found: dict[str, Any] = {}
    with stage.server() as server, ExitStack() as stack:
        ways: dict[str, Pooler | None] = {"direct": None}
        try:
            place = stage.place / "pooler"
            ways["pooler"] = stack.enter_context(pooler(server, stage.address, place))
        except Unable as reason:
            found["missing"] = {"pooler": str(reason)}
        for way, through in ways.items():
            name = f"race_{way}"
            server.create_database(name)
            url = remote(stage, server, name) if through is None else through.url(name)
            found[way] = _played(stage, server, url, name, through)
    return found


def _played(
    stage: Stage, server: Server, url: str, name: str, through: Pooler | None
) -> dict[str, Any]:
    with stage.installed(url, as_ours(server.url(name))) as made:
        workers = stage.named("worker")
        say(f"{name}: throughput")
        rates = scenes.throughput(made, workers, stage.size, through)
        say(f"{name}: restart")
        (client,) = stage.named("client")
        restart = scenes.interrupted(made, client, stage.size, f"{name}-restart", server.restart)
    return {"url": url.partition("?")[2], "throughput": rates, "restart": restart}


def on_a_pair(stage: Stage) -> dict[str, Any]:
    """A failover to a synchronous standby in the middle of it."""
    with stage.pair() as pair:
        pair.primary.create_database("race")
        hosts = ",".join(f"{stage.address}:{each.port}" for each in (pair.primary, pair.standby))
        url = f"postgresql://postgres@{hosts}/race?target_session_attrs=read-write"
        with stage.installed(url, as_ours(pair.url("race"))) as made:
            for machine in stage.named("worker")[:2]:
                made.worker(machine)
            say("failover")
            (client,) = stage.named("client")
            return scenes.interrupted(made, client, stage.size, "failover", pair.fail_over)


def main(order: dict[str, Any]) -> None:
    machines = {each[0]: Machine(*each) for each in order["machines"]}
    with directory() as place:
        stage = Stage(machines, Size(**order["size"]), place)
        found = on_one_server(stage)
        found["failover"] = on_a_pair(stage)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
