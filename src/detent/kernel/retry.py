"""Retry policies: whether and when a failed attempt is retried, by class of failure.

An intent overrides single numbers of the table with a mapping (`policy_from`). Pure: the caller
passes the counts and the time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from detent.errors import Invalid
from detent.kernel import document_fields

MS_US = 1_000
S_US = 1_000_000
MIN_US = 60 * S_US

# Bounds of a policy, so that typing errors are refused at submission.
MAX_RETRIES = 1_000
LONGEST_DELAY_MS = 30 * 24 * 3_600 * 1_000
# The minimum wait after a rate limit, also if its stated reset time has passed.
MIN_RATE_LIMIT_WAIT_US = S_US
# A reset time that is further away is a mistake, for example in its unit, and is ignored.
LONGEST_RESET_US = 32 * 24 * 3_600 * S_US


class FailureClass(StrEnum):
    """Why an attempt failed: decides whether and when it is retried."""

    NETWORK = "network"
    TIMEOUT = "timeout"
    DEPENDENCY = "dependency"
    CANCELLED = "cancelled"
    BUDGET = "budget"
    LOST = "lost"
    RATE_LIMIT = "rate_limit"
    ERROR = "error"
    # Critics decide these two differently: switch the resource, or ask a person.
    RESOURCE = "resource"
    NEEDS_USER = "needs_user"
    # The program used more memory, CPU time, processes or disk space than it may.
    RESOURCE_LIMIT = "resource_limit"


class Backoff(StrEnum):
    """How the delay grows with the number of earlier retries."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class RetryRule:
    """One row of the table. `retries` None means unlimited."""

    retries: int | None
    backoff: Backoff
    first_us: int
    cap_us: int

    def delay_us(self, n: int) -> int:
        """Return the delay before retry n (from 0): d·2^n, d·(n+1) or d, at most the cap."""
        if self.backoff is Backoff.EXPONENTIAL:
            grown = self.first_us << min(n, 62)  # far past any cap; keeps the number small
        elif self.backoff is Backoff.LINEAR:
            grown = self.first_us * (n + 1)
        else:
            grown = self.first_us
        return min(grown, self.cap_us)


def _fixed(retries: int | None, delay_us: int) -> RetryRule:
    return RetryRule(retries, Backoff.FIXED, delay_us, delay_us)


NEVER = _fixed(0, 0)
OTHER_ERROR = RetryRule(3, Backoff.EXPONENTIAL, 1 * S_US, 30 * S_US)

CLASS_RULES: Mapping[FailureClass, RetryRule] = MappingProxyType(
    {
        # 30 s, 60 s, 120 s.
        FailureClass.NETWORK: RetryRule(3, Backoff.EXPONENTIAL, 30 * S_US, 120 * S_US),
        FailureClass.TIMEOUT: _fixed(1, 5 * MIN_US),
        # Released immediately when the dependency changes; the keeper also checks this often.
        FailureClass.DEPENDENCY: _fixed(None, 5 * MIN_US),
        FailureClass.CANCELLED: NEVER,
        # `on_budget_exceeded` decides whether an exceeded budget stops or asks.
        FailureClass.BUDGET: NEVER,
        # Immediately; counted since the last progress, then the job is quarantined.
        FailureClass.LOST: _fixed(3, 0),
        # The stated reset decides; the minute is for services that state none.
        FailureClass.RATE_LIMIT: _fixed(None, 1 * MIN_US),
        FailureClass.ERROR: OTHER_ERROR,
        # Without a critic that switches the resource, it is an error like others.
        FailureClass.RESOURCE: OTHER_ERROR,
        FailureClass.NEEDS_USER: NEVER,
        # The same program under the same limit ends the same way, at the same cost.
        FailureClass.RESOURCE_LIMIT: NEVER,
    }
)

# The classes that the fields of an intent's policy change; others have their own rows.
INTENT_CLASSES = (FailureClass.ERROR, FailureClass.RESOURCE)
# Never counted against `max_attempts`: the work did not cause them.
UNCAPPED = frozenset({FailureClass.LOST, FailureClass.RATE_LIMIT, FailureClass.DEPENDENCY})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The rules of one intent. `max_attempts` includes the first attempt; None: no cap."""

    rules: Mapping[FailureClass, RetryRule]
    max_attempts: int | None = None


#: The policy of jobs without a task, and of lifecycles that declare none.
PLAIN = RetryPolicy(CLASS_RULES)


@dataclass(frozen=True, slots=True)
class Again:
    """The next attempt: when it is due, and how many retries are left with it (None: unlimited).

    `counted`: the next claim is a new attempt, not the same one.
    """

    not_before: int
    immediate: bool
    counted: bool
    retries_left: int | None


def failure_class_from(given: object, where: str = "error_class") -> FailureClass:
    """Return the class named by `given`, in any letter case."""
    return document_fields.choice(given, where, FailureClass)


def verdict(
    policy: RetryPolicy,
    failure_class: FailureClass,
    failures: Mapping[str, int],
    lost: int,
    now: int,
    reset_at: int | None = None,
) -> Again | None:
    """Return when a failed attempt is retried; None if no retry is left.

    `failures` by class and `lost` (since progress) do not include this failure yet.
    """
    rule = policy.rules[failure_class]
    left = retries_left(policy, failure_class, failures, lost)
    if failure_class == FailureClass.RATE_LIMIT:
        stated = stated_reset(reset_at, now)
        end = now + rule.delay_us(0) if stated is None else stated
        due_at = max(end, now + MIN_RATE_LIMIT_WAIT_US)
        return Again(due_at, immediate=False, counted=False, retries_left=left)
    if left == 0:
        return None
    delay = rule.delay_us(_used(failure_class, failures, lost))
    return Again(now + delay, immediate=delay == 0, counted=True, retries_left=left)


def stated_reset(reset_at: int | None, now: int) -> int | None:
    """Return the stated end of a rate limit; None if there is none, or an impossible one."""
    return None if reset_at is None or reset_at > now + LONGEST_RESET_US else reset_at


def retries_left(
    policy: RetryPolicy, failure_class: FailureClass, failures: Mapping[str, int], lost: int
) -> int | None:
    """Return how often this class may still be retried; None means unlimited."""
    rule = policy.rules[failure_class]
    if rule.retries is None:
        return None
    left = rule.retries - _used(failure_class, failures, lost)
    if policy.max_attempts is not None and failure_class not in UNCAPPED:
        ended = sum(count for name, count in failures.items() if name not in UNCAPPED)
        left = min(left, policy.max_attempts - 1 - ended)
    return max(left, 0)


def _used(failure_class: FailureClass, failures: Mapping[str, int], lost: int) -> int:
    return lost if failure_class == FailureClass.LOST else failures.get(failure_class, 0)


# ---- reading a policy from configuration or from a task's options ----------------------------

RULE_FIELDS = ("retries", "backoff", "delay_ms", "max_delay_ms")
# Which numbers an intent may change for which class. Cancelled, budget and needs_user are never
# retried, and `error` is set by the fields of the policy itself.
CLASS_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        FailureClass.NETWORK: RULE_FIELDS,
        FailureClass.TIMEOUT: RULE_FIELDS,
        FailureClass.RESOURCE_LIMIT: RULE_FIELDS,
        FailureClass.LOST: ("retries",),
        FailureClass.DEPENDENCY: ("delay_ms",),
        FailureClass.RATE_LIMIT: ("delay_ms",),
    }
)


def policy_from(given: object, base: RetryPolicy = PLAIN, where: str = "retry") -> RetryPolicy:
    """Return the policy `base`, usually that of a lifecycle, with the changes in `given`.

    `max_attempts`, `retries`, `backoff`, `delay_ms` and `max_delay_ms` set the intent's own policy
    (class `error`); `classes` holds the same fields for other classes. `max_attempts` alone also
    gives `error` as many retries as fit below it.
    """
    named = document_fields.table(given, where, (*RULE_FIELDS, "max_attempts", "classes"))
    rules = dict(base.rules)
    own = {name: value for name, value in named.items() if name in RULE_FIELDS}
    max_attempts = base.max_attempts
    if "max_attempts" in named:
        max_attempts = document_fields.whole_number(
            named["max_attempts"], f"{where}.max_attempts", 1, MAX_RETRIES + 1
        )
        own.setdefault("retries", max_attempts - 1)
    for failure_class in INTENT_CLASSES:
        rules[failure_class] = _rule_from(own, rules[failure_class], where)
    rules.update(_class_rules_from(named.get("classes", {}), rules, f"{where}.classes"))
    return RetryPolicy(MappingProxyType(rules), max_attempts)


def _class_rules_from(
    given: object, rules: Mapping[FailureClass, RetryRule], where: str
) -> dict[FailureClass, RetryRule]:
    changed = {}
    for name, row in document_fields.table(given, where, CLASS_FIELDS).items():
        failure_class = FailureClass(name)
        changes = document_fields.table(row, f"{where}.{name}", CLASS_FIELDS[name])
        changed[failure_class] = _rule_from(changes, rules[failure_class], f"{where}.{name}")
    return changed


def _rule_from(changes: Mapping[str, object], rule: RetryRule, where: str) -> RetryRule:
    if "retries" in changes:
        retries = document_fields.whole_number(
            changes["retries"], f"{where}.retries", 0, MAX_RETRIES
        )
        rule = replace(rule, retries=retries)
    if "backoff" in changes:
        backoff = document_fields.choice(changes["backoff"], f"{where}.backoff", Backoff)
        rule = replace(rule, backoff=backoff)
    if "delay_ms" in changes:
        first_us = _delay_us(changes["delay_ms"], f"{where}.delay_ms")
        # A first delay over the default cap raises the cap.
        rule = replace(rule, first_us=first_us, cap_us=max(rule.cap_us, first_us))
    if "max_delay_ms" in changes:
        field = f"{where}.max_delay_ms"
        rule = replace(rule, cap_us=_delay_us(changes["max_delay_ms"], field))
        if rule.cap_us < rule.first_us:
            least = f"at least {rule.first_us // MS_US}, the first delay in ms"
            message = f"{field} must be {least}, not {changes['max_delay_ms']}."
            raise Invalid(message, field=field, given=changes["max_delay_ms"], allowed=(least,))
    return rule


def _delay_us(given: object, where: str) -> int:
    return document_fields.whole_number(given, where, 0, LONGEST_DELAY_MS) * MS_US
