"""Who takes part in the race: each with its script, its environment, its store and its settings.

Data only. `settings` is what the report says; the script has the reasons and the sources.
"""

from typing import NamedTuple

from bench.race import environments as e
from bench.race.environments import Environment

SQLITE = "detent, SQLite"
POSTGRES = "detent, PostgreSQL"


class Entrant(NamedTuple):
    """One way to run jobs. `against` is the detent that its figures are held against."""

    name: str
    script: str
    #: None for detent itself, which runs in the environment of this process.
    environment: Environment | None
    #: sqlite, postgres or redis: what is started and handed to it, new for each measurement.
    store: str
    variant: str
    settings: str
    against: str
    #: Whether it has durable steps.
    workflows: bool = False


ENTRANTS = (
    Entrant(
        SQLITE,
        "detent_jobs.py",
        None,
        "sqlite",
        "",
        "synchronous FULL, worker as it comes",
        SQLITE,
        True,
    ),
    Entrant(POSTGRES, "detent_jobs.py", None, "postgres", "", "worker as it comes", POSTGRES, True),
    Entrant(
        "DBOS, SQLite",
        "dbos_jobs.py",
        e.DBOS,
        "sqlite",
        "sqlite",
        "write-ahead log, synchronous FULL, polls every 10 ms, 50 at once",
        SQLITE,
        True,
    ),
    Entrant(
        "Huey, fsync",
        "huey_jobs.py",
        e.HUEY,
        "sqlite",
        "fsync",
        "fsync=True, one thread, looks every 1 ms",
        SQLITE,
    ),
    Entrant(
        "Huey, no fsync",
        "huey_jobs.py",
        e.HUEY,
        "sqlite",
        "no-fsync",
        "fsync=False: not durable; one thread, looks every 1 ms",
        SQLITE,
    ),
    Entrant(
        "DBOS, PostgreSQL",
        "dbos_jobs.py",
        e.DBOS,
        "postgres",
        "postgres",
        "polls every 10 ms, 50 at once",
        POSTGRES,
        True,
    ),
    Entrant(
        "absurd",
        "absurd_jobs.py",
        e.ABSURD,
        "postgres",
        "",
        "claims 100, polls every 250 ms",
        POSTGRES,
        True,
    ),
    Entrant(
        "Procrastinate",
        "procrastinate_jobs.py",
        e.PROCRASTINATE,
        "postgres",
        "",
        "20 at once",
        POSTGRES,
    ),
    Entrant(
        "pgqueuer", "pgqueuer_jobs.py", e.PGQUEUER, "postgres", "default", "as it comes", POSTGRES
    ),
    Entrant(
        "pgqueuer, batches",
        "pgqueuer_jobs.py",
        e.PGQUEUER,
        "postgres",
        "batch",
        "batches of 200",
        POSTGRES,
    ),
    Entrant("Oban for Python", "oban_jobs.py", e.OBAN, "postgres", "", "100 at once", POSTGRES),
    Entrant(
        "graphile-worker",
        "graphile_jobs.mjs",
        e.NODE,
        "postgres",
        "default",
        "24 at once, no local queue",
        POSTGRES,
    ),
    Entrant(
        "graphile-worker, batches",
        "graphile_jobs.mjs",
        e.NODE,
        "postgres",
        "batch",
        "24 at once, local queue of 500, completes in batches",
        POSTGRES,
    ),
    Entrant(
        "pg-boss",
        "pgboss_jobs.mjs",
        e.NODE,
        "postgres",
        "",
        "batches of 1,000, NOTIFY, polls every 0.5 s",
        POSTGRES,
    ),
    Entrant(
        "Celery, Redis",
        "celery_jobs.py",
        e.CELERY,
        "redis",
        "",
        "appendfsync always, 8 threads, acks late, prefetch 800",
        POSTGRES,
    ),
    Entrant(
        "Dramatiq, Redis",
        "dramatiq_jobs.py",
        e.DRAMATIQ,
        "redis",
        "",
        "appendfsync always, 8 threads",
        POSTGRES,
    ),
)


def packages(entrant: Entrant) -> str:
    """What of an entrant's environment is the entrant itself, with its version."""
    if entrant.environment is None:
        return ""
    pins = e.pinned(entrant.environment)
    word = entrant.name.lower().split(",")[0].split()[0]
    return ", ".join(f"{name} {pin}" for name, pin in pins.items() if name.startswith(word))
