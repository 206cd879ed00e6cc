"""Every reachable blocked state has an action that ends it, and no suggested action is refused.

The states of a few tasks are enumerated on the real engine. In each state, the test collects what
detent suggests: by `why`, in the inbox, and in the hints of refusals. Each suggestion is then tried
on a copy of the state.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from detent.errors import DetentError
from detent.kernel.entities import Task
from detent.kernel.state_mapping import BlockReason
from detent.operations import actions
from detent.operations.actions import VERBS
from detent.task_lifecycles import SHIPPED
from tests.operations.explorer import ONCE, Cast, Explorer, SavedState, act
from tests.operations.operations_client import OperationsClient
from tests.sampling import FULL

#: A command in a hint, and an action in `how`.
COMMAND = re.compile(r"`detent (\w+) ([\w-]+)[^`]*`")
WORD = re.compile(r"\b(" + "|".join(VERBS) + r")\b")
PLAN = {
    "steps": [
        {"name": "first", "intent": "build"},
        {
            "name": "call",
            "intent": "build",
            "needs": ["first"],
            "capabilities_required": ["call"],
        },
    ]
}
#: More states than any cast can reach.
MAX_STATES = 20_000

Suggested = tuple[str, str]


# ---- the casts -------------------------------------------------------------------------------


def _alone(client: OperationsClient, lifecycle: str) -> None:
    client.submit(id="a", lifecycle=lifecycle, max_budget_usd=1, options=ONCE)


def _family(client: OperationsClient, lifecycle: str) -> None:
    client.submit(id="p", lifecycle=lifecycle, options=ONCE)


def _behind(client: OperationsClient, lifecycle: str) -> None:
    client.submit(id="a", lifecycle=lifecycle, options=ONCE)
    client.submit(id="b", lifecycle=lifecycle, depends_on=["a"], options=ONCE)


def _planned(client: OperationsClient, lifecycle: str) -> None:
    client.call("put_resource", name="phone", capabilities=["call"])
    client.submit(id="a", lifecycle=lifecycle, options={**ONCE, "plan": PLAN})


def _shared_budget(client: OperationsClient, lifecycle: str) -> None:
    client.submit(id="p", lifecycle=lifecycle, max_budget_usd=1, options=ONCE)


ALONE = ("complete", "time_out", "fail error", "fail network", "fail rate_limit", "fail budget")
FAMILY = ("complete", "fail error")
CASTS = (
    Cast(
        "one task",
        _alone,
        lambda _: (*ALONE, "wait question", "wait confirmation", "spend"),
        ("cancel", "retry", "answer", "resume", "raise"),
    ),
    Cast(
        "a parent with a subtask",
        _family,
        lambda task: (*FAMILY, "wait question", *(("gather",) if task == "p" else ("time_out",))),
        ("cancel", "retry", "dismiss", "answer", "resume"),
        {"p": "c"},
    ),
    Cast(
        "a tree of three",
        _family,
        lambda task: FAMILY if task != "p" else ("complete", "gather"),
        ("cancel", "dismiss"),
        {"p": "c", "c": "g"},
    ),
    Cast("a dependency", _behind, lambda _: ("complete", "fail error"), ("cancel", "retry")),
    Cast(
        "a plan that needs a resource",
        _planned,
        lambda _: ("complete", "fail resource", "wait question"),
        ("cancel", "retry", "answer"),
        steps=("first", "call"),
    ),
    Cast(
        "a subtask that spends its parent's budget",
        _shared_budget,
        lambda task: ("complete", *(("spend", "fail budget") if task == "c" else ())),
        ("cancel", "retry", "dismiss"),
        {"p": "c"},
    ),
)

# ---- what is suggested -----------------------------------------------------------------------


class Tried:
    """One blocked task in one state, and the suggestions for it."""

    def __init__(self, explorer: Explorer, state: SavedState, task: Task) -> None:
        self.explorer, self.state, self.task = explorer, state, task
        self.client = explorer.client

    def suggestions(self) -> set[Suggested]:
        found = {*self._by_why(), *self._by_the_inbox(), *self._by_refusals()}
        self.explorer.restore(self.state)
        return found

    def _by_why(self) -> Iterator[Suggested]:
        why = self.client.why(self.task.id)
        yield from ((verb, self.task.id) for verb in why["actions"])
        assert why["reasons"], f"{self.task.id} is blocked and nothing says why"
        for reason in why["reasons"]:
            listed = [(each["action"], each["id"]) for each in reason["actions"]]
            yield from listed
            if reason["reason"] == self.task.blocked_by:
                words = set(WORD.findall(reason["how"]))
                assert words == {verb for verb, _ in listed}, reason

    def _by_the_inbox(self) -> Iterator[Suggested]:
        for item in self.client.call("inbox")["items"]:
            yield from ((each["action"], each["id"]) for each in item["actions"])

    def _by_refusals(self) -> Iterator[Suggested]:
        """Try every action; what a refusal names, in its list or in its hint, is a suggestion."""
        for verb in VERBS:
            self.explorer.restore(self.state)
            refusal = self._refusal(verb, self.task.id)
            if refusal is None:
                continue
            legal = refusal.details.get("legal", [])
            assert isinstance(legal, list)
            yield from ((each, self.task.id) for each in legal if each in VERBS)
            yield from COMMAND.findall(f"{refusal.message} {refusal.hint}")
            assert "legal events" not in refusal.hint

    def _refusal(self, verb: str, task_id: str) -> DetentError | None:
        try:
            act(self.client, verb, self.now(task_id))
        except DetentError as error:
            return error
        return None

    def now(self, task_id: str) -> Task:
        return next(each for each in self.explorer.tasks() if each.id == task_id)

    # -- trying ----------------------------------------------------------------------------

    def leads_out(self, suggested: Suggested) -> bool:
        """Follow a suggestion; a refusal of it fails the test."""
        self.explorer.restore(self.state)
        verb, task_id = suggested
        refusal = self._refusal(verb, task_id)
        assert refusal is None, f"{self.task}: {suggested} was suggested and refused: {refusal}"
        return self._is_out()

    def _is_out(self) -> bool:
        left = [each for each in self.explorer.tasks() if each.id == self.task.id]
        return not left or (left[0].state, left[0].blocked_by) != ("blocked", self.task.blocked_by)

    def dismissals_lead_out(self, suggested: set[Suggested]) -> bool:
        """Dismiss all failed subtasks. False: a subtask is still live."""
        self.explorer.restore(self.state)
        for verb, task_id in sorted(suggested):
            if verb == "dismiss":
                act(self.client, verb, self.now(task_id))
        return self._is_out()


# ---- the test --------------------------------------------------------------------------------


def _look(tried: Tried) -> None:
    suggested = tried.suggestions()
    ways = {each for each in sorted(suggested) if tried.leads_out(each)}
    assert ways, f"no way out: {tried.task}, suggested were {suggested}"
    if tried.task.blocked_by == "subtasks" and not _live_below(tried):
        assert tried.dismissals_lead_out(suggested), tried.task


def _live_below(tried: Tried) -> bool:
    tried.explorer.restore(tried.state)
    others = [each for each in tried.explorer.tasks() if each.depth > tried.task.depth]
    return any(
        SHIPPED[each.lifecycle].ending(each.state, each.retries_left) is None for each in others
    )


def explored(casts: Sequence[Cast]) -> tuple[int, Counter[tuple[str, str]]]:
    """Check every blocked task in every state; returns the number of states and tasks by reason."""
    counts: Counter[tuple[str, str]] = Counter()
    states = 0
    for cast in casts:
        for lifecycle in ("board", "review"):
            explorer = Explorer(cast, lifecycle)
            for state in explorer.states(MAX_STATES):
                states += 1
                for task in [each for each in explorer.tasks() if each.state == "blocked"]:
                    counts[lifecycle, task.blocked_by or ""] += 1
                    explorer.restore(state)
                    _look(Tried(explorer, state, task))
    return states, counts


#: It takes as long as all others together, and each of its pairs is a parent with a subtask.
LARGE = "a tree of three"


def test_every_blocked_state_has_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    states, counts = explored([each for each in CASTS if each.name != LARGE])
    by_reason = {
        each.value: (counts["board", each], counts["review", each]) for each in BlockReason
    }
    with capsys.disabled():
        print(f"\n  {states} states; blocked tasks in them by reason (board, review):")  # noqa: T201
        print("\n".join(f"    {name}: {found}" for name, found in by_reason.items()))  # noqa: T201
    assert [name for name, found in by_reason.items() if not any(found)] == []
    assert states < MAX_STATES, "the search was cut off: not every state was seen"


@FULL
def test_every_blocked_state_of_a_large_cast_has_a_way_out() -> None:
    states, counts = explored([each for each in CASTS if each.name == LARGE])
    assert counts["review", "subtasks"] > 0
    assert states < MAX_STATES, "the search was cut off: not every state was seen"


def test_a_suggestion_that_would_be_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_changes", lambda *_: True)
    with pytest.raises(AssertionError, match="was suggested and refused"):
        explored([each for each in CASTS if each.name == "a dependency"])


def test_a_state_without_a_way_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "_changes", lambda *_: False)
    with pytest.raises(AssertionError, match="no way out"):
        explored([each for each in CASTS if each.name == "a dependency"])
