"""Effects that began and have no recorded end: what their declared policy does about them."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from detent.errors import Invalid
from detent.worker.failures import NeedsUser
from detent.worker.run_requests import Call, Doing

if TYPE_CHECKING:
    from detent.worker.journal import Journal

STEP = "step"
#: What a person may say about an effect of which nobody knows whether it happened.
DONE, AGAIN, FAIL = "done", "again", "fail"
MISSING: Any = object()


class NotDone:
    """What a reconcile callback returns when the effect did not happen."""

    def __repr__(self) -> str:
        return "NOT_DONE"


NOT_DONE = NotDone()


def _again(*_: Any) -> Doing[Any]:
    yield from ()
    return NOT_DONE


def _reconcile(journal: "Journal", key: str, reconcile: Callable[..., Any]) -> Doing[Any]:
    return (yield Call(reconcile, (journal.effect_key(key),)))


def _manual(journal: "Journal", key: str, _: Any) -> Doing[Any]:
    """Ask a person, once for each time that the effect was begun and left without an end."""
    for number in range(1, 1_000):
        answer = yield from journal.ask(
            f"The effect {key!r} began and was cut off: nobody knows whether it happened. Did it?",
            (DONE, AGAIN, FAIL),
            None,
            MISSING,
            f"{key}?{number}",
            kind="confirmation",
        )
        if answer == DONE:
            return None
        if answer != AGAIN:
            raise NeedsUser(f"a person decided that the effect {key!r} must not be tried again")
        begun_again = yield from journal.find(f"{key}!{number}", STEP)
        if begun_again is None:
            yield from journal.record(f"{key}!{number}", None)
            return NOT_DONE
    raise NeedsUser(f"the effect {key!r} was begun and cut off a thousand times")


POLICIES = {"idempotent": _again, "reconcile": _reconcile, "manual": _manual}


def policy_of(policy: str, reconcile: Callable[..., Any] | None) -> Any:
    """What settles an effect that was cut off."""
    if policy not in POLICIES:
        raise Invalid(
            f"policy must be one of {', '.join(POLICIES)}, not {policy!r}.",
            field="policy",
            given=policy,
            allowed=POLICIES,
        )
    if (policy == "reconcile") != (reconcile is not None):
        raise Invalid(
            "a callback `reconcile` goes with the policy reconcile, and only with it.",
            field="reconcile",
        )
    return POLICIES[policy]


def with_key(function: Callable[..., Any], kwargs: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The arguments, with the idempotency key for a function that asks for it by name."""
    try:
        wants = "idempotency_key" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        wants = False
    return {**kwargs, "idempotency_key": key} if wants else dict(kwargs)
