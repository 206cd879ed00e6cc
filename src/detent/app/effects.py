"""Effects of a run: calls that change something outside, and the policy after an interruption.

An effect is recorded when it begins and when it ends. If a run finds one that began and did not
end, the declared policy decides: call it again, look the result up, or ask a person.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from detent import failpoints
from detent.app.arguments import returns_of
from detent.app.failures import NeedsUser
from detent.app.journal import EFFECT, STEP, Journal
from detent.app.run_operations import Call, Operation
from detent.app.values import fitted, storable
from detent.app.waits import MISSING, ask
from detent.errors import Invalid
from detent.kernel import commands as c

#: What a person can answer about an effect that was interrupted.
DONE, AGAIN, FAIL = "done", "again", "fail"
MAX_INTERRUPTIONS = 1_000


class NotDone:
    """The type of NOT_DONE."""

    def __repr__(self) -> str:
        return "NOT_DONE"


#: A `reconcile` callback returns this if the effect did not happen.
NOT_DONE = NotDone()


def effect(
    journal: Journal,
    key: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Any,
    policy: str,
    reconcile: Callable[..., Any] | None,
) -> Operation[Any]:
    """Record that the effect begins, call the function, record its result; once for each key."""
    settle = policy_of(policy, reconcile)
    known = yield from journal.find(key, EFFECT)
    if known is not None and known.done:
        return fitted(known.value, returns_of(function))
    if known is None:
        begin = c.BeginEffect(journal.grant, journal.prefix + key, policy, journal.step_name)
        yield from journal.execute(begin)
        failpoints.hit("effect.begun")
        value = NOT_DONE
    else:
        value = yield from settle(journal, key, reconcile)
    if value is NOT_DONE:
        journal.require_lease()
        value = yield Call(function, args, with_key(function, kwargs, effect_key(journal, key)))
    plain = storable(value, f"the result of effect {key!r}")
    failpoints.hit("effect.done")
    yield from journal.record(key, plain)
    return fitted(plain, returns_of(function))


def effect_key(journal: Journal, key: str) -> str:
    """The idempotency key: the same in every attempt of the job, and unique to the job."""
    return f"{journal.grant.job_id}:{journal.prefix}{key}"


# ---- policies --------------------------------------------------------------------------------


def _again(*_: Any) -> Operation[Any]:
    yield from ()
    return NOT_DONE


def _reconcile(journal: Journal, key: str, reconcile: Callable[..., Any]) -> Operation[Any]:
    return (yield Call(reconcile, (effect_key(journal, key),)))


def _manual(journal: Journal, key: str, _: Any) -> Operation[Any]:
    """Ask a person, once for each time that the effect was interrupted."""
    for number in range(1, MAX_INTERRUPTIONS):
        answer = yield from ask(
            journal,
            f"The effect {key!r} was interrupted, and it is unknown whether it happened. "
            "Did it happen?",
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
    raise NeedsUser(f"the effect {key!r} was interrupted {MAX_INTERRUPTIONS} times")


POLICIES = {"idempotent": _again, "reconcile": _reconcile, "manual": _manual}


def policy_of(policy: str, reconcile: Callable[..., Any] | None) -> Any:
    """The function that decides about an interrupted effect."""
    if policy not in POLICIES:
        raise Invalid(
            f"policy must be one of {', '.join(POLICIES)}, not {policy!r}.",
            field="policy",
            given=policy,
            allowed=POLICIES,
        )
    if policy == "reconcile" and reconcile is None:
        raise Invalid(
            "the policy 'reconcile' needs a callback: pass reconcile=function.", field="reconcile"
        )
    if policy != "reconcile" and reconcile is not None:
        raise Invalid(
            f"a reconcile callback needs the policy 'reconcile', not {policy!r}.",
            field="reconcile",
        )
    return POLICIES[policy]


def with_key(function: Callable[..., Any], kwargs: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The keyword arguments, with the idempotency key if the function has that parameter."""
    try:
        wants = "idempotency_key" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        wants = False
    return {**kwargs, "idempotency_key": key} if wants else dict(kwargs)
