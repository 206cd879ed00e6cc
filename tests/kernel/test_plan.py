"""Plans: what is refused and how it is named, and what the states of steps allow next."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Invalid
from detent.kernel.lifecycles.step import STEP
from detent.kernel.plan import (
    Plan,
    PlanEnd,
    PlanStep,
    When,
    carry_over,
    finished,
    frontier,
    unreachable,
    validate,
)


def plan_of(**needs: str) -> Plan:
    """A plan by its edges: `plan_of(a="", c="a b?")`; a `?` makes the step's `when` all_done."""
    return validate(
        {
            "steps": [
                {
                    "name": name,
                    "needs": given_needs.replace("?", "").split(),
                    "when": "all_done" if "?" in given_needs else "all_succeeded",
                }
                for name, given_needs in needs.items()
            ]
        }
    )


DIAMOND = plan_of(top="", left="top", right="top", bottom="left right")
WITH_REPORT = plan_of(build="", test="build", ship="test", report="ship?")


# ---- reading ----------------------------------------------------------------------------------


def test_a_step_by_its_name_alone() -> None:
    assert validate({"steps": [{"name": "build"}]}) == Plan((PlanStep("build", "build"),))


def test_defaults_of_a_step() -> None:
    step = PlanStep("build", "build")
    assert (step.needs, step.when) == ((), "all_succeeded")
    assert (step.max_retries, step.retry) == (None, None)
    assert (step.timeout_ms, step.hold_resource_ms, step.critic) == (None, 0, None)
    assert (step.capabilities_required, step.label_selector, step.avoid) == ((), {}, ())


def test_a_step_with_everything() -> None:
    row = {
        "name": "film",
        "intent": "record",
        "needs": ["build"],
        "when": "All_Done",
        "capabilities_required": ["browser", "gpu"],
        "label_selector": {"zone": "eu"},
        "avoid": ["browser-3"],
        "max_retries": 0,
        "retry": {"max_attempts": 2, "delay_ms": 500},
        "timeout_ms": 1,
        "hold_resource_ms": 60_000,
        "acquire_timeout_ms": 5_000,
        "critic": "strict",
        "input": {"url": "https://example.org", "sizes": [1, 2.5, None, True]},
    }
    plan = validate({"steps": [{"name": "build"}, row]})
    step = plan.step("film")
    assert step.when is When.ALL_DONE
    for name, value in row.items():
        if name != "when":
            found = getattr(step, name)
            assert (list(found) if isinstance(found, tuple) else found) == value


def test_the_most_that_a_step_may_ask_for() -> None:
    year_ms = 31_536_000_000
    row = {"timeout_ms": year_ms, "hold_resource_ms": year_ms, "max_retries": 1_000}
    (step,) = validate({"steps": [{"name": "n" * 100, **row}]}).steps
    assert (step.timeout_ms, step.hold_resource_ms, step.max_retries) == (year_ms, year_ms, 1_000)


def with_step(**fields: Any) -> dict[str, Any]:
    return {"steps": [{"name": "a"}, {"name": "b", **fields}]}


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (None, "plan"),
        ([], "plan"),
        ({}, "plan.steps"),
        ({"steps": []}, "plan.steps"),
        ({"steps": {"a": {}}}, "plan.steps"),
        ({"steps": "abc"}, "plan.steps"),
        ({"steps": [{"name": f"s{n}"} for n in range(1_001)]}, "plan.steps"),
        ({"steps": [{"name": "a"}], "limit": 3}, "plan.limit"),
        ({"steps": ["a"]}, "plan.steps[0]"),
        ({"steps": [{}]}, "plan.steps[0].name"),
        ({"steps": [{"name": "a", 7: 7}]}, "plan.steps[0]"),
        (with_step(label_selector={" zone": "eu"}), "plan.steps[1].label_selector. zone"),
        (with_step(colour="red"), "plan.steps[1].colour"),
        (with_step(name=""), "plan.steps[1].name"),
        (with_step(name=" b"), "plan.steps[1].name"),
        (with_step(name="b\n"), "plan.steps[1].name"),
        (with_step(name="b" * 101), "plan.steps[1].name"),
        (with_step(name=7), "plan.steps[1].name"),
        (with_step(name="a"), "plan.steps[1].name"),
        (with_step(intent=""), "plan.steps[1].intent"),
        (with_step(needs="a"), "plan.steps[1].needs"),
        (with_step(needs=[1]), "plan.steps[1].needs[0]"),
        (with_step(needs=["a", "a"]), "plan.steps[1].needs[1]"),
        (with_step(needs=["a", "b"]), "plan.steps[1].needs[1]"),
        (with_step(needs=["c"]), "plan.steps[1].needs[0]"),
        (with_step(when="some"), "plan.steps[1].when"),
        (with_step(when=None), "plan.steps[1].when"),
        (with_step(capabilities_required="gpu"), "plan.steps[1].capabilities_required"),
        (with_step(label_selector=["zone"]), "plan.steps[1].label_selector"),
        (with_step(label_selector={"zone": 1}), "plan.steps[1].label_selector.zone"),
        (with_step(avoid=[""]), "plan.steps[1].avoid[0]"),
        (with_step(max_retries=-1), "plan.steps[1].max_retries"),
        (with_step(max_retries=True), "plan.steps[1].max_retries"),
        (with_step(max_retries=1_001), "plan.steps[1].max_retries"),
        (with_step(retry={"retries": -1}), "plan.steps[1].retry.retries"),
        (with_step(retry=[3]), "plan.steps[1].retry"),
        (with_step(timeout_ms=0), "plan.steps[1].timeout_ms"),
        (with_step(timeout_ms=31_536_000_001), "plan.steps[1].timeout_ms"),
        (with_step(hold_resource_ms=31_536_000_001), "plan.steps[1].hold_resource_ms"),
        (with_step(timeout_ms=1.5), "plan.steps[1].timeout_ms"),
        (with_step(hold_resource_ms=-1), "plan.steps[1].hold_resource_ms"),
        (with_step(critic=3), "plan.steps[1].critic"),
        (with_step(input=float("nan")), "plan.steps[1].input"),
        (with_step(input={1, 2}), "plan.steps[1].input"),
        (with_step(input=deep(100_000)), "plan.steps[1].input"),
    ],
)
def test_a_wrong_plan_names_the_field(document: object, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        validate(document)
    assert caught.value.field == field
    assert field in caught.value.message


def test_a_thousand_steps_are_allowed() -> None:
    rows = [{"name": f"s{n}", "needs": [f"s{n - 1}"] if n else []} for n in range(1_000)]
    assert len(validate({"steps": rows}).steps) == 1_000


def test_an_unknown_need_is_answered_with_the_steps() -> None:
    with pytest.raises(Invalid, match="'b' needs 'c', which is not in the plan") as caught:
        plan_of(a="", b="c")
    assert caught.value.allowed == ("a", "b")


def test_a_step_that_needs_itself() -> None:
    with pytest.raises(Invalid, match="'b' depends on itself"):
        plan_of(a="", b="b")


def test_a_step_that_is_listed_twice() -> None:
    with pytest.raises(Invalid, match=r"'a' is in the plan twice, first as steps\[0\]"):
        validate({"steps": [{"name": "a"}, {"name": "a"}]})


@pytest.mark.parametrize(
    ("needs", "paths"),
    [
        ({"a": "b", "b": "a"}, {"a -> b -> a", "b -> a -> b"}),
        (
            {"start": "", "a": "start c", "b": "a", "c": "b"},
            {"a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"},
        ),
    ],
)
def test_a_cycle_is_named_by_its_path(needs: dict[str, str], paths: set[str]) -> None:
    with pytest.raises(Invalid) as caught:
        plan_of(**needs)
    assert caught.value.given in paths
    assert f": {caught.value.given}." in caught.value.message


# ---- which steps can start --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "ready"),
    [
        ({}, ("top",)),
        ({"top": "running"}, ()),
        ({"top": "succeeded"}, ("left", "right")),
        ({"top": "succeeded", "left": "waiting_deps"}, ("left", "right")),
        ({"top": "succeeded", "left": "succeeded"}, ("right",)),
        ({"top": "succeeded", "left": "retrying", "right": "needs_user"}, ()),
    ],
)
def test_what_may_start(states: Mapping[str, str], ready: tuple[str, ...]) -> None:
    assert frontier(DIAMOND, states) == ready


def test_a_failure_throws_away_neither_siblings_nor_their_results() -> None:
    states = {"top": "succeeded", "left": "failed"}
    assert frontier(DIAMOND, states) == ("right",)
    assert unreachable(DIAMOND, states) == {"bottom": "left"}
    assert finished(DIAMOND, states) is None
    assert finished(DIAMOND, {**states, "right": "succeeded"}) is PlanEnd.FAILED


def test_the_cause_of_what_is_unreachable_is_the_step_that_failed() -> None:
    states = {"build": "failed"}
    assert unreachable(WITH_REPORT, states) == {"test": "build", "ship": "build"}


def test_all_done_also_runs_after_failures_and_after_what_they_made_unreachable() -> None:
    assert frontier(WITH_REPORT, {"build": "failed"}) == ("report",)
    assert frontier(WITH_REPORT, {"build": "running"}) == ()
    reported = {"build": "failed", "report": "succeeded"}
    assert finished(WITH_REPORT, {"build": "failed"}) is None
    assert finished(WITH_REPORT, reported) is PlanEnd.FAILED


@pytest.mark.parametrize("state", STEP.state_names)
def test_only_the_two_ends_of_a_step_end_a_plan(state: str) -> None:
    ends = {"succeeded": PlanEnd.COMPLETED, "failed": PlanEnd.FAILED}
    plan = plan_of(only="")
    assert finished(plan, {"only": state}) == ends.get(state)
    assert frontier(plan, {"only": state}) == (
        ("only",) if state in ("pending", "waiting_deps") else ()
    )


@pytest.mark.parametrize("state", STEP.state_names)
def test_only_success_releases_what_needs_success(state: str) -> None:
    plan = plan_of(first="", then="first")
    assert ("then" in frontier(plan, {"first": state})) == (state == "succeeded")
    assert ("then" in unreachable(plan, {"first": state})) == (state == "failed")


# ---- replanning -------------------------------------------------------------------------------


def versioned(*rows: tuple[str, Any]) -> Plan:
    return validate({"steps": [{"name": name, "input": given_input} for name, given_input in rows]})


def test_succeeded_steps_of_the_same_name_and_input_are_carried_over() -> None:
    old = versioned(("a", {"x": 1, "y": 2}), ("b", 1), ("c", 1), ("d", None), ("e", 1))
    new = versioned(("e", 1), ("f", 1), ("d", None), ("c", 1), ("b", 2), ("a", {"y": 2, "x": 1}))
    states = {"a": "succeeded", "b": "succeeded", "c": "failed", "d": "running", "e": "succeeded"}
    assert carry_over(old, new, states) == ("e", "a")


def test_inputs_are_compared_as_json() -> None:
    states = {"a": "succeeded"}
    assert carry_over(versioned(("a", True)), versioned(("a", 1)), states) == ()
    assert carry_over(versioned(("a", [1])), versioned(("a", (1,))), states) == ("a",)


def test_the_same_name_for_another_intent_is_other_work() -> None:
    other = validate({"steps": [{"name": "a", "intent": "b"}]})
    assert carry_over(versioned(("a", None)), other, {"a": "succeeded"}) == ()


# ---- properties -------------------------------------------------------------------------------


@st.composite
def acyclic(draw: st.DrawFn) -> Plan:
    """Any acyclic plan, its steps in any order in the document."""
    names = [f"s{n}" for n in range(draw(st.integers(1, 12)))]
    rows = [
        {
            "name": name,
            "needs": draw(st.lists(st.sampled_from(names[:n]), unique=True)) if n else [],
            "when": draw(st.sampled_from(When)),
        }
        for n, name in enumerate(names)
    ]
    return validate({"steps": draw(st.permutations(rows))})


states_of_steps = st.dictionaries(
    st.sampled_from([f"s{n}" for n in range(12)]), st.sampled_from(STEP.state_names)
)


@given(acyclic(), states_of_steps)
def test_nothing_starts_before_what_it_needs_is_done(plan: Plan, states: dict[str, str]) -> None:
    lost = unreachable(plan, states)
    for name in frontier(plan, states):
        step = plan.step(name)
        for need in step.needs:
            if step.when is When.ALL_SUCCEEDED:
                assert states.get(need) == "succeeded"
            else:
                assert states.get(need) in ("succeeded", "failed") or need in lost


@given(acyclic(), st.data())
def test_frontier_steps_in_any_order_finish_every_plan(plan: Plan, data: st.DataObject) -> None:
    states: dict[str, str] = {}
    running: list[str] = []
    for _ in range(2 * len(plan.steps)):
        choices = [*frontier(plan, states), *running]
        if not choices:
            break
        name = data.draw(st.sampled_from(choices))
        if name in running:
            running.remove(name)
            states[name] = data.draw(st.sampled_from(["succeeded", "failed"]))
        else:
            running.append(name)
            states[name] = "running"
        assert (finished(plan, states) is None) == bool(running or frontier(plan, states))
    failed = "failed" in states.values()
    assert finished(plan, states) is (PlanEnd.FAILED if failed else PlanEnd.COMPLETED)
    assert set(states) | set(unreachable(plan, states)) == {step.name for step in plan.steps}


@given(
    st.integers(2, 10).flatmap(lambda n: st.tuples(st.just(n), st.permutations(range(n)))),
    st.data(),
)
def test_the_named_path_of_a_cycle_is_a_real_cycle(
    ring: tuple[int, list[int]], data: st.DataObject
) -> None:
    size, order = ring
    length = data.draw(st.integers(2, size))
    needs: dict[str, set[str]] = {f"s{n}": set() for n in range(size)}
    for here, there in zip(order[:length], [*order[1:length], order[0]], strict=True):
        needs[f"s{here}"].add(f"s{there}")
    for name in needs:
        more = st.sets(st.sampled_from([other for other in needs if other != name]))
        needs[name] |= data.draw(more)
    with pytest.raises(Invalid) as caught:
        plan_of(**{name: " ".join(sorted(wanted)) for name, wanted in needs.items()})
    path = str(caught.value.given).split(" -> ")
    assert path[0] == path[-1]
    assert len(set(path)) == len(path) - 1 >= 2
    for earlier, later in pairwise(path):
        assert earlier in needs[later]
