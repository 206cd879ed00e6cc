"""The tools of the comparison: script, environment, store, settings and where they are documented.

Data only. The first sentence of each script says why its settings are these.
"""

from typing import NamedTuple

from bench.peers import environments as e
from bench.peers.environments import Environment


class System(NamedTuple):
    """One tool with one set of settings."""

    name: str
    script: str
    #: None for detent, which runs in the environment of this process.
    environment: Environment | None
    #: sqlite, postgres or redis: a new one for each trial.
    store: str
    settings: str
    source: str
    variant: str = ""
    #: How a submission is given its key.
    key: str = ""


DETENT_SETTINGS = "worker.lease_ms 5000, worker.heartbeat_ms 1667"
CELERY = "https://docs.celeryq.dev/en/stable/userguide/configuration.html"
PROCRASTINATE = "https://procrastinate.readthedocs.io/en/stable/howto/production/"

SYSTEMS = (
    System(
        name="detent, SQLite",
        script="detent_trial.py",
        environment=None,
        store="sqlite",
        settings=DETENT_SETTINGS,
        source="docs/reference/settings.md",
        key="key",
    ),
    System(
        name="detent, PostgreSQL",
        script="detent_trial.py",
        environment=None,
        store="postgres",
        settings=DETENT_SETTINGS,
        source="docs/reference/settings.md",
        key="key",
    ),
    System(
        name="Celery, defaults",
        script="celery_trial.py",
        environment=e.CELERY,
        store="redis",
        settings="none: acknowledges a task before it runs",
        source=CELERY,
        variant="defaults",
        key="task_id",
    ),
    System(
        name="Celery, durable",
        script="celery_trial.py",
        environment=e.CELERY,
        store="redis",
        settings="task_acks_late, task_reject_on_worker_lost, worker_prefetch_multiplier 1, "
        "visibility_timeout 5 s",
        source=CELERY,
        variant="durable",
        key="task_id",
    ),
    System(
        name="Procrastinate, defaults",
        script="procrastinate_trial.py",
        environment=e.PROCRASTINATE,
        store="postgres",
        settings="none",
        source=PROCRASTINATE,
        variant="defaults",
        key="queueing_lock",
    ),
    System(
        name="Procrastinate, stalled jobs",
        script="procrastinate_trial.py",
        environment=e.PROCRASTINATE,
        store="postgres",
        settings="the documented periodic task that retries stalled jobs, every 5 s; "
        "update_heartbeat_interval 1.67 s, stalled_worker_timeout 5 s",
        source=f"{PROCRASTINATE}retry_stalled_jobs.html",
        variant="stalled",
        key="queueing_lock",
    ),
    System(
        name="pgqueuer",
        script="pgqueuer_trial.py",
        environment=e.PGQUEUER,
        store="postgres",
        settings="heartbeat_timeout 5 s, dequeue_timeout 5 s",
        source="https://pgqueuer.readthedocs.io/en/latest/",
        key="dedupe_key",
    ),
    System(
        name="DBOS",
        script="dbos_trial.py",
        environment=e.DBOS,
        store="postgres",
        settings="an executor_id for each worker, without Conductor",
        source="https://docs.dbos.dev/production/workflow-recovery",
        key="workflow_id",
    ),
    System(
        name="absurd",
        script="absurd_trial.py",
        environment=e.ABSURD,
        store="postgres",
        settings="claim_timeout 5 s, ctx.heartbeat() every 1.67 s",
        source="https://github.com/earendil-works/absurd",
        key="idempotency_key",
    ),
    System(
        name="Oban for Python",
        script="oban_trial.py",
        environment=e.OBAN,
        store="postgres",
        settings="lifeline: rescue_after 5 s, interval 1 s",
        source="https://oban.pro/docs/py/",
    ),
)


def version(system: System) -> str:
    """The pinned version of the tool, or that of this clone."""
    if system.environment is None:
        return ""
    pins = e.pinned(system.environment)
    return ", ".join(
        f"{name} {pin}"
        for name, pin in pins.items()
        if name.removesuffix("-sdk") == system.environment.name
    )
