"""Writes traces as a TLA+ module: TLC follows each of them through the steps of the model. Pure.

All traces are in one module, which has an instance of the model for each lifecycle and set of
related tasks. So one run of TLC checks the logs of many fault-injection runs.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from detent.kernel.retry import Backoff, FailureClass, RetryRule
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_tla import Bounds, export
from detent.lifecycle_tla.bounds import constants
from detent.lifecycle_tla.checker import Model
from detent.lifecycle_tla.export import module_name
from verification.lifecycle_model.projection import ModelState, Variables
from verification.lifecycle_model.related_tasks import DEPENDENCY, SUBTASK
from verification.lifecycle_model.task_traces import Trace

NAME = "traces"
CONFIGURATION = "INIT Init\nNEXT Next\nINVARIANT FollowsModel\n"

HEAD = """\
(* Traces of event logs, followed through the steps of the model. *)
EXTENDS Naturals, Sequences

\\* The number of the trace, the place in it, and the states of the current transaction that the
\\* model can reach.
VARIABLES trace, place, reached

T(state, job, reason, cancel, settled, accepts) ==
    [state |-> state, job |-> job, reason |-> reason, rounds |-> 0, errors |-> 0, timeouts |-> 0,
     lost |-> 0, cancel |-> cancel, settled |-> settled, accepts |-> accepts,
     outside |-> ""]

\\* Traces have no counts: retries and rounds may be left or used up.
Uncounted(w) ==
    [t \\in DOMAIN w |->
        [w[t] EXCEPT !.rounds = 0, !.errors = 0, !.timeouts = 0, !.lost = 0]]
Counted(w) ==
    {[t \\in DOMAIN w |-> [w[t] EXCEPT !.rounds = rounds[t], !.errors = failures[t],
                                      !.timeouts = failures[t], !.lost = failures[t]]] :
        rounds \\in [DOMAIN w -> {0, 1}], failures \\in [DOMAIN w -> {0, 1}]}
Results(StepsOf(_, _), w) ==
    {Uncounted(v) : v \\in UNION {StepsOf(x, t) : x \\in Counted(w), t \\in DOMAIN w}}
"""

STEPS = """\
Init == trace \\in 1..Len(Traces) /\\ place = 1 /\\ reached = {Traces[trace].states[1]}

\\* A state of a transaction can be reached from the end of the one before, or from a state within.
Next ==
    LET it == Traces[trace]
        now == it.states[place + 1]
        able == IF \\E each \\in reached : now \\in After[it.model][each]
                THEN reached \\cup {now} ELSE reached
    IN  /\\ place < Len(it.states)
        /\\ place' = place + 1
        /\\ reached' = IF place + 1 \\in it.ends THEN able \\cap {now} ELSE able
        /\\ UNCHANGED trace

FollowsModel == reached # {}
"""


class ModelKey(NamedTuple):
    """Which instance of the model: the id of the lifecycle, and which other tasks there are."""

    lifecycle: str
    subtask: bool
    dependency: bool


@dataclass(slots=True)
class TraceModule:
    """The distinct traces, and the numbers of their models and states in the module."""

    lifecycles: dict[str, TaskLifecycle] = field(default_factory=dict)
    models: dict[ModelKey, int] = field(default_factory=dict)
    states: dict[ModelKey, dict[ModelState, int]] = field(default_factory=dict)
    #: The traces with the same states, by their text.
    traces: dict[str, list[Trace]] = field(default_factory=dict)

    def add(self, trace: Trace) -> None:
        lifecycle = trace.lifecycle
        self.lifecycles[lifecycle.id] = lifecycle
        key = ModelKey(lifecycle.id, SUBTASK in trace.tasks, DEPENDENCY in trace.tasks)
        model = self.models.setdefault(key, len(self.models) + 1)
        known = self.states.setdefault(key, {})
        numbers = [known.setdefault(state, len(known) + 1) for state in trace.states]
        ends = ", ".join(str(place + 1) for place in trace.ends)
        states = ", ".join(map(str, numbers))
        text = f"[model |-> {model}, states |-> <<{states}>>, ends |-> {{{ends}}}]"
        self.traces.setdefault(text, []).append(trace)

    def model(self) -> Model:
        """What TLC reads."""
        instances = {
            module_name(variant): export(variant)
            for lifecycle in self.lifecycles.values()
            for variant in _variants(lifecycle)
        }
        text = "\n".join((f" MODULE {NAME} ".center(97, "-"), HEAD, *self._tables(), STEPS, END))
        return Model(NAME, text, CONFIGURATION, instances)

    def _tables(self) -> Iterator[str]:
        for key, number in self.models.items():
            yield from _model(number, key, self.lifecycles[key.lifecycle], self.states[key])
        yield f"After == <<{', '.join(f'After{number}' for number in self.models.values())}>>\n"
        yield "Traces == <<\n" + ",\n".join(self.traces) + "\n>>\n"


END = "=" * 97 + "\n"


def _variants(lifecycle: TaskLifecycle) -> tuple[TaskLifecycle, TaskLifecycle]:
    """The lifecycle with its retries after a delay, and with immediate ones: a task may have both.

    An error with a delay is retried after it in the first, whatever the document says.
    """
    return _with_delay(lifecycle, 1, ""), _with_delay(lifecycle, 0, "_immediate")


def _with_delay(lifecycle: TaskLifecycle, delay_us: int, suffix: str) -> TaskLifecycle:
    rules = dict(lifecycle.policy.rules)
    for kind in (FailureClass.ERROR, FailureClass.TIMEOUT):
        rules[kind] = RetryRule(1, Backoff.FIXED, delay_us, delay_us)
    policy = replace(lifecycle.policy, rules=MappingProxyType(rules), max_attempts=None)
    return replace(lifecycle, name=lifecycle.name + suffix, policy=policy)


def _model(
    number: int, key: ModelKey, lifecycle: TaskLifecycle, states: Iterable[ModelState]
) -> Iterator[str]:
    """An instance of the model, the states of its traces, and which of them follow each."""
    bounds = Bounds(1, 1, 1, key.subtask, key.dependency, ends=False)
    results = []
    for at, variant in enumerate(_variants(lifecycle)):
        values = {**constants(variant, bounds), "RoundLimit": 1, "LostRetries": 1}
        yield _instance(f"Model{number}_{at}", module_name(variant), values)
        results.append(f"Results(Model{number}_{at}!StepsOf, States{number}[i])")
    either = " \\cup ".join(results)
    yield f"States{number} == <<\n" + ",\n".join(map(_state, states)) + "\n>>"
    yield (
        f"After{number} == [i \\in DOMAIN States{number} |->\n"
        f"    LET found == {either}\n"
        f"    IN  {{j \\in DOMAIN States{number} : States{number}[j] \\in found}}]\n"
    )


def _instance(name: str, module: str, values: Mapping[str, int | bool]) -> str:
    given = [f"{constant} <- {str(value).upper()}" for constant, value in values.items()]
    return f"{name} == INSTANCE {module} WITH tasks <- trace, {', '.join(given)}"


def _state(state: ModelState) -> str:
    tasks = ", ".join(f"{name} |-> {_variables(each)}" for name, each in state)
    return f"    [{tasks}]"


def _variables(each: Variables) -> str:
    texts = [f'"{value}"' for value in (each.state, each.job, each.reason)]
    flags = [str(value).upper() for value in (each.cancel, each.settled, each.accepts)]
    return f"T({', '.join([*texts, *flags])})"


def trace_module(traces: Sequence[Trace]) -> TraceModule:
    """Gather traces in a module."""
    found = TraceModule()
    for trace in traces:
        found.add(trace)
    return found
