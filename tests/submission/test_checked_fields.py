"""What was checked before is not checked again, and gives the same commands and refusals."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from detent.errors import DetentError
from detent.kernel.commands import Actor
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.submission import command as commands
from detent.submission.context import Context

INTENTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "costly": {"max_budget_usd": 2.5, "retry": {"max_attempts": 3}},
    "keyed": {"concurrency_key": "customer-{customer}"},
    "typed": {"arguments": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    "planned": {"capabilities_required": ["browser"]},
}
STORE = MemoryStore()

payloads = st.sampled_from([{}, {"customer": "c"}, {"customer": []}, {"n": 1}, {"n": "x"}])
requests = st.fixed_dictionaries(
    {"intent": st.sampled_from([*INTENTS, "plain", "plain", "costly", "unknown"])},
    optional={
        "payload": payloads,
        "priority": st.sampled_from(["P0", "P1", "high"]),
        "project": st.sampled_from(["barn", "yard", "x" * 300]),
        "source": st.sampled_from(["api", "cli", "elsewhere"]),
        "lifecycle": st.sampled_from(["board", "review", "other"]),
        "options": st.sampled_from([None, {}, {"max_rounds": 2}, {"none": 1}]),
        "max_budget_usd": st.sampled_from([None, 1.0, -1.0]),
        "run": st.booleans(),
        "tags": st.sampled_from([[], ["a", "a"]]),
        "id": st.sampled_from([None, "own", "own-j1"]),
        "not_before": st.sampled_from([None, "5m", "never"]),
        "idempotency_key": st.sampled_from([None, "k"]),
    },
)


def context(locked: bool, project: str | None) -> Context:
    chosen = Settings(intake_projects_locked=locked)
    return Context(STORE, chosen, INTENTS, Actor("ann"), project)


def outcome(context: Context, given: dict[str, Any]) -> Any:
    """The command with its key, without a generated id; or the refusal."""
    try:
        made = commands.submit_task(context, given)
    except DetentError as error:
        return type(error), error.code, str(error)
    command: Any = made.command
    fields = {name: getattr(command, name) for name in command.__dataclass_fields__}
    if made.fresh:
        del fields["task_id"]
    return fields, made.actor, made.key, made.fresh


@settings(max_examples=150, deadline=None)
@given(st.lists(requests, min_size=2, max_size=8), st.booleans(), st.sampled_from([None, "barn"]))
def test_a_shared_context_gives_what_a_new_one_gives(
    some: list[dict[str, Any]], locked: bool, project: str | None
) -> None:
    shared = context(locked, project)
    for each in [*some, *some]:
        assert outcome(shared, each) == outcome(context(locked, project), each)


def test_only_what_does_not_depend_on_the_payload_lasts() -> None:
    shared = context(False, None)
    for intent in INTENTS:
        for _ in range(2):
            outcome(shared, {"intent": intent, "payload": {"customer": "c", "n": 1}})
    assert {fields[0] for fields in shared.checked} == {"plain", "costly"}
