"""The tools of the race, each with its script, its environment, its store and its settings.

Data only. `settings` and `source` are what the report says; the script has the reasons.
"""

from typing import NamedTuple

from bench.peers import environments as e
from bench.peers.environments import Environment

SQLITE = "detent, SQLite"
POSTGRES = "detent, PostgreSQL"
#: Shares of the work, so that each tool works for seconds and its start counts little: for tools
#: with more than about 5,000 jobs a second, with less than 3,000, and with less than 1,000.
MANY, SOME, FEW = 5.0, 0.25, 0.05


class Entrant(NamedTuple):
    """One way to run jobs. `against` is the detent that its figures are compared with."""

    name: str
    script: str
    #: None for detent itself, which runs in the environment of this process.
    environment: Environment | None
    #: sqlite, postgres, redis or restate: a new one is started for each measurement.
    store: str
    variant: str
    settings: str
    against: str
    #: Where its documentation says so.
    source: str
    #: Whether it has durable steps.
    workflows: bool = False
    #: Its share of the work: a slow tool gets fewer jobs, so that the race ends soon.
    share: float = MANY


#: The rows alone, exactly those that detent writes, by no script but in the race's own process.
BARE = "bare rows"
DETENT = "docs/reference/settings.md"
DBOS = "https://docs.dbos.dev/python/reference/queues"
HUEY = "https://huey.readthedocs.io/en/latest/consumer.html"
PGQUEUER = "https://pgqueuer.readthedocs.io/en/latest/"
GRAPHILE = "https://worker.graphile.org/docs/performance"

ENTRANTS = (
    Entrant(
        name=SQLITE,
        script="detent_jobs.py",
        environment=None,
        store="sqlite",
        variant="",
        settings="synchronous FULL, default worker, 100 workflows in flight, as coroutines",
        against=SQLITE,
        source=DETENT,
        workflows=True,
    ),
    Entrant(
        name=POSTGRES,
        script="detent_jobs.py",
        environment=None,
        store="postgres",
        variant="",
        settings="synchronous_commit on, default worker, 100 workflows in flight, as coroutines",
        against=POSTGRES,
        source=DETENT,
        workflows=True,
    ),
    Entrant(
        name="bare rows, SQLite",
        script=BARE,
        environment=None,
        store="sqlite",
        variant="",
        settings="the write statements of a run of detent, 1,000 jobs per transaction",
        against=SQLITE,
        source="",
    ),
    Entrant(
        name="bare rows, PostgreSQL",
        script=BARE,
        environment=None,
        store="postgres",
        variant="",
        settings="the write statements of a run of detent, 1,000 jobs per transaction",
        against=POSTGRES,
        source="",
    ),
    Entrant(
        name="DBOS, SQLite",
        script="dbos_jobs.py",
        environment=e.DBOS,
        store="sqlite",
        variant="sqlite",
        settings="write-ahead log, synchronous FULL, polls every 10 ms, 100 concurrent",
        against=SQLITE,
        source=DBOS,
        workflows=True,
        share=FEW,
    ),
    Entrant(
        name="Huey, fsync",
        script="huey_jobs.py",
        environment=e.HUEY,
        store="sqlite",
        variant="fsync",
        settings="fsync=True, one thread, polls every 1 ms",
        against=SQLITE,
        source=HUEY,
        share=SOME,
    ),
    Entrant(
        name="Huey, no fsync",
        script="huey_jobs.py",
        environment=e.HUEY,
        store="sqlite",
        variant="no-fsync",
        settings="fsync=False: not durable; one thread, polls every 1 ms",
        against=SQLITE,
        source=HUEY,
    ),
    Entrant(
        name="DBOS, PostgreSQL",
        script="dbos_jobs.py",
        environment=e.DBOS,
        store="postgres",
        variant="postgres",
        settings="polls every 10 ms, 100 concurrent",
        against=POSTGRES,
        source=DBOS,
        workflows=True,
        share=FEW,
    ),
    Entrant(
        name="absurd",
        script="absurd_jobs.py",
        environment=e.ABSURD,
        store="postgres",
        variant="",
        settings="claims 100, polls every 250 ms",
        against=POSTGRES,
        source="https://github.com/earendil-works/absurd",
        workflows=True,
        share=FEW,
    ),
    Entrant(
        name="Procrastinate",
        script="procrastinate_jobs.py",
        environment=e.PROCRASTINATE,
        store="postgres",
        variant="",
        settings="20 concurrent, a pool of 25 connections",
        against=POSTGRES,
        source="https://procrastinate.readthedocs.io/en/stable/howto/basics/worker.html",
        share=FEW,
    ),
    Entrant(
        name="pgqueuer",
        script="pgqueuer_jobs.py",
        environment=e.PGQUEUER,
        store="postgres",
        variant="default",
        settings="defaults",
        against=POSTGRES,
        source=PGQUEUER,
        share=SOME,
    ),
    Entrant(
        name="pgqueuer, batches",
        script="pgqueuer_jobs.py",
        environment=e.PGQUEUER,
        store="postgres",
        variant="batch",
        settings="batches of 200",
        against=POSTGRES,
        source=PGQUEUER,
    ),
    Entrant(
        name="Oban for Python",
        script="oban_jobs.py",
        environment=e.OBAN,
        store="postgres",
        variant="",
        settings="100 concurrent",
        against=POSTGRES,
        source="https://oban.pro/docs/py/",
        share=SOME,
    ),
    Entrant(
        name="graphile-worker",
        script="graphile_jobs.mjs",
        environment=e.NODE,
        store="postgres",
        variant="default",
        settings="24 concurrent, no local queue",
        against=POSTGRES,
        source=GRAPHILE,
        share=SOME,
    ),
    Entrant(
        name="graphile-worker, batches",
        script="graphile_jobs.mjs",
        environment=e.NODE,
        store="postgres",
        variant="batch",
        settings="24 concurrent, local queue of 500, completes in batches",
        against=POSTGRES,
        source=GRAPHILE,
    ),
    Entrant(
        name="pg-boss",
        script="pgboss_jobs.mjs",
        environment=e.NODE,
        store="postgres",
        variant="",
        settings="batches of 1,000, NOTIFY, polls every 0.5 s",
        against=POSTGRES,
        source="https://github.com/timgit/pg-boss/blob/master/docs/api/workers.md",
    ),
    Entrant(
        name="Restate",
        script="restate_jobs.mjs",
        environment=e.NODE,
        store="restate",
        variant="",
        settings="server with its defaults, tries again after 50 to 250 ms",
        against=POSTGRES,
        source="https://docs.restate.dev/references/server-config",
        workflows=True,
        share=FEW,
    ),
    Entrant(
        name="Celery, Redis",
        script="celery_jobs.py",
        environment=e.CELERY,
        store="redis",
        variant="",
        settings="appendfsync always, 8 threads, acks late, prefetch 800",
        against=POSTGRES,
        source="https://docs.celeryq.dev/en/stable/userguide/optimizing.html",
        share=FEW,
    ),
    Entrant(
        name="Dramatiq, Redis",
        script="dramatiq_jobs.py",
        environment=e.DRAMATIQ,
        store="redis",
        variant="",
        settings="appendfsync always, 8 threads",
        against=POSTGRES,
        source="https://dramatiq.io/guide.html",
        share=SOME,
    ),
)


def packages(entrant: Entrant) -> str:
    """What of an entrant's environment is the entrant itself, with its version."""
    if entrant.environment is None:
        return ""
    pins = e.pinned(entrant.environment)
    word = entrant.name.lower().split(",")[0].split()[0]
    named = {name.rpartition("/")[2]: pin for name, pin in pins.items()}
    return ", ".join(f"{name} {pin}" for name, pin in named.items() if name.startswith(word))
