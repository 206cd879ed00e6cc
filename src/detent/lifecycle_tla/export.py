"""Writes a lifecycle as a TLA+ module: the tables of its document, then the model of detent.

The model (`task_model.tla`) is the same for every lifecycle. Pure but for reading that file.
"""

from collections.abc import Iterable, Iterator
from importlib.resources import files

from detent.kernel.lifecycle import Row
from detent.kernel.retry import FailureClass
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Rule, TaskLifecycle, Timer
from detent.lifecycle_tla.bounds import DEFAULT, Bounds, constants

INVARIANTS = (
    "TypeOK",
    "PhaseFitsJob",
    "RoundsStayInLimit",
    "NoEventOutsideOfTable",
    "AnEndStaysReachable",
)
PROPERTIES = ("EndsAreFinal", "QueueIsServed", "CancelIsObeyed", "EveryRunEnds")

HEADER = """\
(* The lifecycle {id}: {title}

   Written by `detent lifecycle export {name} --format tla`. The bounds are constants: the file
   {module}.cfg has their values. Check it with TLC:
   `java -jar tla2tools.jar -deadlock {module}.tla`.
*)
EXTENDS Naturals, Sequences

CONSTANTS
    WithSubtask,     \\* whether the task may have a subtask, and
    WithDependency,  \\* whether it depends on another task; both have the same lifecycle
    ErrorRetries,    \\* how often a failed attempt is retried,
    TimeoutRetries,  \\* an attempt that ran out of time, and
    LostRetries,     \\* one whose worker was lost
    MaxAttempts,     \\* how many attempts there are in all; 0: as many as the retries allow
    RoundLimit,      \\* how often an event that counts a round may be sent
    SearchForEnds    \\* whether to compute from which states an end can be reached
"""


def export(lifecycle: TaskLifecycle) -> str:
    """Return the TLA+ module of a lifecycle."""
    name = module_name(lifecycle)
    model = files(__package__).joinpath("task_model.tla").read_text(encoding="utf-8")
    header = HEADER.format(
        id=lifecycle.id, title=_comment(lifecycle.title), name=lifecycle.name, module=name
    )
    title = f" MODULE {name} ".center(97, "-")
    tables = "\n\n".join(_tables(lifecycle))
    return "\n".join(
        (title, header, tables, "", model.replace("@DECLARED@", _declared_steps(lifecycle)))
    )


def configuration(
    lifecycle: TaskLifecycle,
    bounds: Bounds = DEFAULT,
    invariants: Iterable[str] = INVARIANTS,
    properties: Iterable[str] = PROPERTIES,
) -> str:
    """Return the configuration of TLC: the bounds, and what must hold."""
    values = constants(lifecycle, bounds)
    lines = [f"    {name} = {str(value).upper()}" for name, value in values.items()]
    parts = [
        "SPECIFICATION Spec",
        "CONSTANTS",
        *lines,
        *(f"INVARIANT {name}" for name in invariants),
        *(f"PROPERTY {name}" for name in properties),
    ]
    return "\n".join(parts) + "\n"


def module_name(lifecycle: TaskLifecycle) -> str:
    """The name of the module, which is that of its file."""
    return lifecycle.id.replace("@", "_v")


# ---- tables ----------------------------------------------------------------------------------


def _tables(lifecycle: TaskLifecycle) -> Iterator[str]:
    """The tables of the document, each a definition with its comment."""
    states = lifecycle.states
    yield f"States == {_set(each.name for each in states)}"
    yield f"Initial == {_text(lifecycle.initial)}"
    yield f"Terminal == {_set(lifecycle.terminal)}"
    yield PHASES + _record("PhaseOf", ((each.name, each.phase, each.meaning) for each in states))
    yield ENDINGS + _record("EndingOf", ((each.name, each.ending or "none", "") for each in states))
    yield REVIEW + f"UnderReview == {_set(each.name for each in states if each.under_review)}"
    yield ROWS + "Rows == {\n" + _lines(_row(row) for row in lifecycle.rows if row.source) + "\n}"
    yield RULES + "Rules == <<\n" + _lines(map(_rule, lifecycle.rules)) + "\n>>"
    yield QUEUES + f"Queues == {_set(('task_queued', *_own(lifecycle.queues)))}"
    rounds = dict.fromkeys(("task_rejected", *lifecycle.rounds.events))
    yield ROUNDS + f"RoundEvents == {_set(rounds)}"
    yield SENT + f"SentByPeople == {_pairs(lifecycle)}"
    yield TIMERS + "Timers == <<" + ",\n           ".join(map(_timer, lifecycle.timers)) + ">>"
    yield IMMEDIATE + _immediate_retries(lifecycle)


PHASES = """\
\\* What the job does: idle: there is no live job; queued: it waits for a worker; working: a worker
\\* has claimed it, or it waits by itself; blocked: it cannot continue.
"""
ENDINGS = "\\* How the work ended; a task that is blocked without retries has failed too.\n"
REVIEW = "\\* The work is over and a person decides about it.\n"
ROWS = "\\* From a state, an event leads to a state. Every other event is refused.\n"
RULES = "\\* What the task does when something happens to its job: the first rule that applies.\n"
QUEUES = "\\* The events that create a new job.\n"
ROUNDS = "\\* The events that count a round.\n"
SENT = "\\* The document's own events that people may send, and from which states.\n"
TIMERS = "\\* What the keeper sends to a task after this many seconds in a state.\n"
IMMEDIATE = "\\* Whether a retry is due without a delay.\n"


def _row(row: Row) -> tuple[str, str]:
    cells = ", ".join(_text(each or "") for each in (row.source, row.event, row.target))
    return f"<<{cells}>>", f"{row.who}: {row.why}"


def _rule(rule: Rule) -> tuple[str, str]:
    """A rule, and the same as a sentence."""
    then = ", ".join(map(_text, rule.then))
    fields = (
        f"when |-> {_text(rule.when)}, in |-> {_set(rule.states)}, given |-> {_set(rule.given)}"
    )
    states = f" in {' or '.join(rule.states)}" if rule.states else ""
    given = f", if {' and '.join(rule.given)}" if rule.given else ""
    sentence = f"After {rule.when}{states}{given}: {', then '.join(rule.then) or 'nothing'}."
    return f"[{fields},\n     then |-> <<{then}>>]", sentence


def _timer(timer: Timer) -> str:
    """A timer; its time, in seconds, only says which of two timers is due before the other."""
    seconds = timer.after_us // 1_000_000
    return f"[state |-> {_text(timer.state)}, after |-> {seconds}, event |-> {_text(timer.event)}]"


def _own(events: Iterable[str]) -> list[str]:
    return [event for event in events if event not in TASK_EVENTS]


def _by_people(row: Row) -> bool:
    """Whether a person may send it. Events that detent knows have commands of their own."""
    return bool(row.people) and row.event not in TASK_EVENTS


def _pairs(lifecycle: TaskLifecycle) -> str:
    rows = [row for row in lifecycle.rows if row.source and _by_people(row)]
    return "{" + ", ".join(f"<<{_text(row.source)}, {_text(row.event)}>>" for row in rows) + "}"


def _immediate_retries(lifecycle: TaskLifecycle) -> str:
    kinds = (FailureClass.ERROR, FailureClass.TIMEOUT)
    delays = ((kind, lifecycle.policy.rules[kind].delay_us(0)) for kind in kinds)
    fields = ", ".join(f"{kind} |-> {str(delay == 0).upper()}" for kind, delay in delays)
    return f"ImmediateRetry == [{fields}]"


def _declared_steps(lifecycle: TaskLifecycle) -> str:
    """One step for each event that only the document knows and that people may send."""
    reasons = {row.event: f"{row.who}: {row.why}" for row in lifecycle.rows if _by_people(row)}
    steps = [
        f"\\* {_comment(why)}\n{event}(t) == tasks' \\in Send(tasks, t, {_text(event)})"
        for event, why in reasons.items()
    ]
    any_of = " \\/ ".join(f"{event}(t)" for event in reasons) or "FALSE"
    return "\n".join((*steps, f"Declared(t) == {any_of}"))


# ---- text ------------------------------------------------------------------------------------


def _text(given: object) -> str:
    """A string. Names of a document are snake_case, so nothing is to be escaped."""
    return f'"{given}"'


def _set(given: Iterable[object]) -> str:
    return "{" + ", ".join(map(_text, given)) + "}"


def _record(name: str, fields: Iterable[tuple[str, object, str]]) -> str:
    lines = [(f"{field} |-> {_text(value)}", comment) for field, value, comment in fields]
    return f"{name} == [\n{_lines(lines)}\n]"


def _lines(entries: Iterable[tuple[str, str]]) -> str:
    """Entries separated by commas, each below its comment."""
    comments, texts = [], []
    for text, comment in entries:
        comments.append(f"    \\* {_comment(comment)}\n" if comment else "")
        texts.append(text)
    commas = [","] * (len(texts) - 1) + [""]
    lines = zip(comments, texts, commas, strict=True)
    return "\n".join(f"{comment}    {text}{comma}" for comment, text, comma in lines)


def _comment(given: str) -> str:
    """A comment on one line, in the characters that every version of TLC reads."""
    plain = " ".join(given.split()).replace("(*", "( *").replace("*)", "* )")
    return plain.encode("ascii", "replace").decode()
