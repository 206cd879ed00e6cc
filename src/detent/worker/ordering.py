"""Submissions on their way: what was ordered, what is checked, the command that places it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import platformdirs

from detent.engine import Idempotency
from detent.errors import Invalid
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.plan import validate
from detent.kernel.planned import plan_from
from detent.kernel.resources import candidates
from detent.operations.core import Core, digest
from detent.store.open import is_postgres, sqlite_path


class Order(NamedTuple):
    """A submission, checked and ready to be placed."""

    intent: str
    payload: Any
    options: Mapping[str, Any]
    concurrency_key: str | None
    returns: Any


class Way(NamedTuple):
    """Under what a submission is placed; without a lifecycle it is a job alone."""

    project: str
    priority: str
    lifecycle: str | None
    title: str
    source: str


def command_of(order: Order, way: Way) -> c.Command:
    """The command that places an order, under a new id."""
    if way.lifecycle is None:
        return c.SubmitJob(
            new_id(),
            way.project,
            order.intent,
            way.priority,
            order.payload,
            concurrency_key=order.concurrency_key,
            options=order.options,
        )
    keyed = {} if order.concurrency_key is None else {"concurrency_key": order.concurrency_key}
    return c.SubmitTask(
        new_id(),
        way.project,
        way.lifecycle,
        order.intent,
        way.source,
        way.priority,
        title=way.title,
        payload=order.payload,
        options={**order.options, **keyed},
        queue=True,
    )


def key_for(order: Order, way: Way, key: str | None) -> Idempotency | None:
    """The same key with the same order gives the first job again."""
    return None if key is None else Idempotency(way.project, key, digest([order[:4], way]))


def check_resources(core: Core, options: Mapping[str, Any], intent: str) -> None:
    """A step that no resource fits can never run: say so now, not after the queue."""
    document = plan_from(options, intent)
    if document is None:
        return
    steps = [step for step in validate(document).steps if step.capabilities_required]
    if not steps:
        return
    with core.store.read() as view:
        resources = list(view.resources())
    for step in steps:
        if not candidates(step, step.avoid, resources):
            offered = sorted({each for resource in resources for each in resource.capabilities})
            raise Invalid(
                f"step {step.name} requires {', '.join(step.capabilities_required)}, which no "
                f"resource offers. Offered: {', '.join(offered) or 'nothing'}.",
                field="capabilities_required",
                given=list(step.capabilities_required),
                allowed=offered,
            )


def beside(url: str) -> str:
    """Where run directories go: beside an SQLite file, else in the user's data directory."""
    if is_postgres(url):
        return platformdirs.user_data_dir("detent")
    return str(sqlite_path(url).parent)
