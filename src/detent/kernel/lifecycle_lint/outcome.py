"""Checks of rules: each outcome of a job moves its task, by events that have a row. Pure."""

from collections.abc import Iterator, Mapping

from detent.kernel.lifecycle_lint.flaw import Flaw
from detent.kernel.task_lifecycle import Phase, Predicate, Rule, TaskLifecycle, Trigger

LIVE = (Phase.QUEUED, Phase.WORKING, Phase.BLOCKED)
#: The phases in which a trigger occurs. The job of a plan may fail before its first run has
#: started; a run that starts again after an immediate retry finds its task working.
OCCURS: Mapping[Trigger, tuple[Phase, ...]] = {
    Trigger.RUN_STARTED: (Phase.QUEUED, Phase.WORKING),
    Trigger.JOB_COMPLETED: (Phase.WORKING,),
    Trigger.JOB_FAILED: (Phase.WORKING, Phase.QUEUED),
    Trigger.JOB_CANCELLED: LIVE,
    Trigger.SUBTASKS_SETTLED: (Phase.BLOCKED,),
}
#: The phases in which a rule must follow a trigger.
HANDLED: Mapping[Trigger, tuple[Phase, ...]] = {**OCCURS, Trigger.RUN_STARTED: (Phase.QUEUED,)}
#: The condition of a rule that is about every acceptance.
ACCEPTED = (Predicate.IS_ACCEPTANCE,)
ENDS = (Trigger.JOB_COMPLETED, Trigger.JOB_FAILED, Trigger.JOB_CANCELLED)


def emitted_without_row(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for index, rule in enumerate(lifecycle.rules):
        for state in applies_in(lifecycle, index):
            found = _missing_row(lifecycle, rule, state)
            if found is not None:
                at, event = found
                text = (
                    f"It can apply in {state}, and {event} has no row from {at}. Add the row, or "
                    "name the states of the rule in `in`."
                )
                yield Flaw("rule-row", f"rules[{index}].then", text)


def tasks_that_stay(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """The end of a job moves its task: to an idle or blocked state, or to a new job."""
    for index, rule in enumerate(lifecycle.rules):
        for state in applies_in(lifecycle, index) if rule.when in ENDS else ():
            after = state_after(lifecycle, rule, state)
            queued = any(event in lifecycle.queues for event in rule.then)
            phase = None if after is None else lifecycle.phase(after)
            if phase is Phase.WORKING or (phase is Phase.QUEUED and not queued):
                text = (
                    f"After {rule.when} the job has ended, but the task is {after} ({phase}). Emit "
                    "an event that leads to an idle state, or one of `queues`."
                )
                yield Flaw("rule-stays", f"rules[{index}].then", text)


def triggers_without_rule(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for when, phases in HANDLED.items():
        if when is Trigger.SUBTASKS_SETTLED and not _waits_for_subtasks(lifecycle):
            continue
        for state in lifecycle.states:
            if state.phase in phases and not _is_handled(lifecycle, when, state.name):
                text = (
                    f"No rule without `if` follows {when} in {state.name}, so the task would stay "
                    "there. Add one after the others."
                )
                yield Flaw("no-rule", "rules", text)


def _waits_for_subtasks(lifecycle: TaskLifecycle) -> bool:
    rules = lifecycle.by_trigger[Trigger.JOB_COMPLETED]
    return any(rule.then[-1:] == ("task_blocked",) for rule in rules)


def _is_handled(lifecycle: TaskLifecycle, when: Trigger, state: str) -> bool:
    return any(_always_applies(rule, state) for rule in lifecycle.by_trigger[when])


def unreached_rules(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for index, rule in enumerate(lifecycle.rules):
        for at, other in enumerate(lifecycle.rules[:index]):
            wider = not other.states or (rule.states and {*rule.states} <= {*other.states})
            if other.when is rule.when and wider and {*other.given} <= {*rule.given}:
                text = f"rules[{at}] applies in every case of this one. Put this one before it."
                yield Flaw("unreached-rule", f"rules[{index}]", text)
                break
        else:
            if rule.states and all(lifecycle.phase(each) is Phase.IDLE for each in rule.states):
                text = f"{rule.when} needs a job, and in these states none is live."
                yield Flaw("unreached-rule", f"rules[{index}].in", text)


def acceptances(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """An acceptance with an action ends: with task_accepted, or in a state without a job."""
    if "task_accepting" not in lifecycle.targets:
        return
    for when, needed in ((Trigger.JOB_COMPLETED, "task_accepted"), (Trigger.JOB_FAILED, None)):
        rules = [rule for rule in lifecycle.by_trigger[when] if rule.given == ACCEPTED]
        if not any(needed is None or needed in rule.then for rule in rules):
            emits = f" that emits {needed}" if needed else ""
            text = (
                f"The table has task_accepting, so {when} needs a rule with "
                f'if = ["is_acceptance"]{emits}.'
            )
            yield Flaw("acceptance", "rules", text)


def unfit_events(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for index, rule in enumerate(lifecycle.rules):
        if "task_timed_out" in rule.then and rule.when is not Trigger.JOB_FAILED:
            text = f"task_timed_out has no meaning after {rule.when}, only after job_failed."
            yield Flaw("rule-event", f"rules[{index}].then", text)


# ---- where a rule leads ----------------------------------------------------------------------


def applies_in(lifecycle: TaskLifecycle, index: int) -> list[str]:
    """The states in which the rule with this index may be the first that applies."""
    rule = lifecycle.rules[index]
    earlier = [each for each in lifecycle.rules[:index] if each.when is rule.when]
    return [
        state
        for state in (rule.states or _usual_states(lifecycle, rule))
        if lifecycle.phase(state) is not Phase.IDLE
        and not any(_always_applies(each, state, rule.given) for each in earlier)
    ]


def _always_applies(rule: Rule, state: str, given: tuple[Predicate, ...] = ()) -> bool:
    return {*rule.given} <= {*given} and (not rule.states or state in rule.states)


def _usual_states(lifecycle: TaskLifecycle, rule: Rule) -> list[str]:
    """The states in which the trigger of a rule without `in` occurs."""
    if rule.when is Trigger.SUBTASKS_SETTLED and not _waits_for_subtasks(lifecycle):
        return []
    if Predicate.DEPENDENCY_FAILED in rule.given:
        return _before_start(lifecycle)
    return [each.name for each in lifecycle.states if each.phase in OCCURS[rule.when]]


def _before_start(lifecycle: TaskLifecycle) -> list[str]:
    """The states in which a task waits for its dependencies."""
    queued = [each.name for each in lifecycle.states if each.phase is Phase.QUEUED]
    blocked = [lifecycle.move.get((state, "task_blocked")) for state in queued]
    return [*queued, *dict.fromkeys(each for each in blocked if each is not None)]


def state_after(lifecycle: TaskLifecycle, rule: Rule, state: str) -> str | None:
    """The state after the events of a rule; None if one of them has no row."""
    for event in rule.then:
        target = lifecycle.move.get((state, event))
        if target is None:
            return None
        state = target
    return state


def _missing_row(lifecycle: TaskLifecycle, rule: Rule, state: str) -> tuple[str, str] | None:
    for event in rule.then:
        target = lifecycle.move.get((state, event))
        if target is None:
            return state, event
        state = target
    return None


CHECKS = (
    emitted_without_row,
    tasks_that_stay,
    triggers_without_rule,
    unreached_rules,
    acceptances,
    unfit_events,
)
