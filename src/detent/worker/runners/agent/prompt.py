"""The prompt of an agent: the intent's prompt with the payload, and what has happened since.

Pure: values in, text out.
"""

import json
from collections.abc import Callable, Mapping, Sequence

from detent.worker.runners.agent.review_message import review_message
from detent.worker.runners.agent.session_history import REVIEWS, Moment, Past

#: The maximum length of one argument on Linux, with a margin.
LONGEST_ARGUMENT = 120_000
LONGEST_MOMENT = 2_000
MAX_MOMENTS = 50

GO_ON = "Please continue where you left off."
TIMED_OUT = f"Your previous execution timed out. {GO_ON}"
RULES = """\
How to work with detent:
- If you need a decision from a person, write {"text": "your question?", "options": ["a", "b"]} \
as JSON to the file named by the environment variable DETENT_QUESTION_FILE and stop. You continue \
in this session with the answer. Add "other": true if the person may also answer in their own words.
- When you are done, write a short summary to the file named by DETENT_SUMMARY_FILE.
- Put files that show your work into the directory named by DETENT_EVIDENCE_DIR."""


def opening(prompt: str, past: Past, *, resumed: bool) -> str:
    """The first prompt of a run. What reviewers say comes before everything else."""
    first = _review(past, resumed=resumed)
    news = [described(each) for each in past.news if each.kind not in REVIEWS]
    if resumed:
        return "\n\n".join([*first, *filter(None, news)] or [GO_ON])
    return "\n\n".join([*first, prompt, *_history(past), RULES])


def _review(past: Past, *, resumed: bool) -> list[str]:
    """The reviewer's comment, then all open comments on lines if the session lacks one of them."""
    rejection = _rejection(past)
    shown = [] if rejection is None else [described(rejection)]
    if past.reviews or not resumed:
        shown.append(review_message(past.comments))
    return list(filter(None, shown))


def _rejection(past: Past) -> Moment | None:
    """The last rejection; none if it has no comment, and comments on lines say what is wrong."""
    rejections = [each for each in past.reviews if each.kind == "rejection"]
    return next((each for each in rejections[-1:] if each.text or not past.comments), None)


def with_criteria(prompt: str, criteria: Sequence[str]) -> str:
    """The prompt with the criteria that a reviewer applies."""
    listed = "\n".join(f"- {each}" for each in criteria)
    return f"{prompt}\n\nYour work is accepted if:\n{listed}" if criteria else prompt


def _history(past: Past) -> list[str]:
    """A summary of the history, for an agent in a new session that has read `_review`."""
    if not past.moments:
        return []
    known, first = "You have worked on this before, in a session that is gone.", _rejection(past)
    shown = [described(each) for each in past.moments[-MAX_MOMENTS:] if each is not first]
    lines = [f"- {line}" for line in shown if line]
    return ["\n".join([f"{known} What happened:", *lines]) if lines else known]


def described(moment: Moment) -> str:
    """The text for one moment."""
    return DESCRIPTIONS[moment.kind](moment) if moment.kind in DESCRIPTIONS else ""


def _answer(moment: Moment) -> str:
    reply = moment.value
    if reply["outcome"] == "expired":
        return f"Your question was not answered in time: {_cut(moment.text)}\nDecide yourself."
    answer = reply["answer"]
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
    return f"You asked: {_cut(moment.text)}\nThe answer: {_cut(text)}"


def _rejected(moment: Moment) -> str:
    if not moment.text:
        return "Your work was reviewed and rejected, without a comment. Please improve it."
    return f"{moment.text}\n\n(This is a reviewer's comment on your work. Please act on it.)"


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_MOMENT else f"{text[:LONGEST_MOMENT]}..."


DESCRIPTIONS: Mapping[str, Callable[[Moment], str]] = {
    "rejection": _rejected,
    "question": _answer,
    "confirmation": lambda _: f"A person has reviewed what you were not allowed to do. {GO_ON}",
    "budget": lambda _: f"Your budget was raised. {GO_ON}",
    "timeout": lambda _: TIMED_OUT,
    "failure": lambda moment: f"Your previous execution failed: {_cut(moment.text)}\n{GO_ON}",
    "interruption": lambda _: f"Your previous execution was interrupted. {GO_ON}",
}


def as_argument(text: str) -> str:
    """Text that is safe as a program argument: never an option, without NUL bytes."""
    plain = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    plain = plain.encode("utf-8", "replace").decode()
    return f" {plain}" if plain.startswith("-") else plain


def too_long(text: str) -> bool:
    return len(text.encode()) > LONGEST_ARGUMENT
