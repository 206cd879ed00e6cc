"""The options of a request for permission: what people see, and what a policy chooses."""

from detent.worker.runners.acp.permission_request import (
    REFUSE,
    Choice,
    chosen_by_policy,
    named_options,
    question_text,
)

YES, ALWAYS = Choice("y", "Yes", "allow_once"), Choice("a", "Always", "allow_always")
NO = Choice("n", "No", "reject_once")


def test_people_choose_by_name_and_can_always_refuse() -> None:
    assert named_options([YES, NO]) == {"Yes": "y", "No": "n"}
    assert named_options([YES]) == {"Yes": "y", REFUSE: None}
    same = Choice("n", "Yes", "reject_once")
    assert named_options([YES, same]) == {"Yes": "y", "Yes (n)": "n"}


def test_a_policy_prefers_this_once_and_cancels_what_it_cannot_answer() -> None:
    assert chosen_by_policy("allow", [ALWAYS, YES, NO]) == "y"
    assert chosen_by_policy("allow", [NO, ALWAYS]) == "a"
    assert chosen_by_policy("refuse", [YES, NO]) == "n"
    assert chosen_by_policy("refuse", [YES]) is None
    assert chosen_by_policy("allow", []) is None


def test_the_question_shows_the_edit_or_the_input() -> None:
    diff = {"type": "diff", "path": "a.py", "oldText": "one\n", "newText": "two\n"}
    text = question_text({"title": "Edit a.py", "kind": "edit", "content": [diff]})
    assert text.startswith("May the agent do this? Edit a.py\n\n")
    assert "-one\n+two\n" in text
    assert question_text({}) == "May the agent do this? unknown tool"
    assert len(question_text({"title": "x", "rawInput": {"command": "y" * 9_000}})) < 4_100
