"""Mixed work for a cluster, by clients that record their requests and the answers.

Jobs, plans, waits, subtasks, questions, reviews, cancels, and the same key again and again.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from verification.fault_injection.client_history import OK, UNKNOWN, History
from verification.fault_injection.cluster import Cluster
from verification.fault_injection.followed_tasks import LIFECYCLES
from verification.fault_injection.http_client import Answered, ask

CLIENTS = 4
PAUSE_S = (0.0, 0.06)
#: What is submitted, by how often.
INTENTS: Mapping[str, int] = {
    "small": 8,
    "slow": 2,
    "tour": 3,
    "signalled": 2,
    "asking": 1,
    "planned": 2,
    "thought-out": 1,
    "command": 1,
}
#: A job without a task, or a task.
WORK = ("", "", *LIFECYCLES)
#: The lifecycle of tasks that may depend on another: its tasks are done without a person.
DEPENDING = "board"
#: What others may depend on: the model of a lifecycle has no chains and no subtasks of these.
SIMPLE = ("small", "slow", "signalled")
#: The share of what is ready that is sent back.
REJECTED = 0.3


class Client:
    """One thread that asks; everything it decides comes from its own seed."""

    def __init__(self, cluster: Cluster, history: History, rng: Random, name: str) -> None:
        self.cluster, self.history, self.rng, self.name = cluster, history, rng, name
        self.counts: Counter[str] = Counter()
        self.made: list[tuple[str, str]] = []
        #: Tasks that others may depend on.
        self.alone: list[str] = []
        #: Submissions whose end is not known, by key, and some that are, to be repeated.
        self.unknown: dict[str, dict[str, Any]] = {}
        self.known: dict[str, dict[str, Any]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._end.set()
        self._thread.join()

    def _loop(self) -> None:
        actions: list[Callable[[], None]] = [
            *[self.submit] * 6,
            *[self.verb] * 3,
            *[self.review] * 2,
            *[self.repeat] * 2,
        ]
        while not self._end.wait(self.rng.uniform(*PAUSE_S)):
            self.rng.choice(actions)()

    # -- asking ----------------------------------------------------------------------------

    def submit(self) -> None:
        self.counts["keys"] += 1
        key = f"{self.name}-{self.counts['keys']}"
        intent = self.rng.choices([*INTENTS], [*INTENTS.values()])[0]
        body: dict[str, Any] = {"intent": intent, "payload": {"key": key}}
        lifecycle = self.rng.choice(WORK)
        if lifecycle:
            body |= {"lifecycle": lifecycle, "run": True}
        if lifecycle == DEPENDING and intent not in SIMPLE and self.alone:
            body |= {"depends_on": [self.rng.choice(self.alone)]}
        self._post(key, body)

    def repeat(self) -> None:
        """The same key and the same body again: one of those without an answer first."""
        waiting = self.unknown or self.known
        if waiting:
            key = self.rng.choice([*waiting])
            self.counts["repeated"] += 1
            self._post(key, waiting[key])

    def settle(self, patience_s: float) -> None:
        """Every submission without an answer again, until there is none, or no answer comes."""
        until_s = time.monotonic() + patience_s
        while self.unknown and time.monotonic() < until_s:
            for key, body in list(self.unknown.items()):
                self._post(key, body)
                if key not in self.unknown:
                    until_s = time.monotonic() + patience_s

    def _post(self, key: str, body: dict[str, Any]) -> None:
        noun = "tasks" if "lifecycle" in body else "jobs"
        number = self.history.invoke("submit", key=key)
        answered = self._ask("POST", f"/api/{noun}", body, key)
        made = str(answered.document.get("id", "")) if answered.outcome == OK else ""
        self.history.end(number, answered.outcome, id=made, answer=answered.code)
        self.counts[f"submit {answered.outcome}"] += 1
        if answered.outcome == UNKNOWN:
            self.unknown[key] = body
            return
        self.unknown.pop(key, None)
        if made and key not in self.known:
            self.known[key] = body
            self.made.append((noun, made))
            if body.get("lifecycle") == DEPENDING and body["intent"] in SIMPLE:
                self.alone.append(made)

    def verb(self) -> None:
        """A request about an existing task or job."""
        if not self.made:
            return
        noun, about = self.made[-self.rng.randint(1, min(40, len(self.made)))]
        verbs: dict[str, dict[str, Any]] = {"cancel": {}, "signal": {"name": "go", "value": 1}}
        if noun == "tasks":
            verbs |= {"accept": {}, "reject": {"comment": "again", "run": True}}
            verbs |= {"answer": {"answer": "yes"}}
        verb = self.rng.choice([*verbs])
        self._say(verb, noun, about, verbs[verb])

    def review(self) -> None:
        """As a person does: read what waits, answer a question first, else give a verdict."""
        inbox = self._ask("GET", "/api/inbox").document
        tasks = inbox.get("items", ())
        asked = [("tasks", each["id"]) for each in tasks if each["state"] == "blocked"]
        asked += [("jobs", each["job_id"]) for each in inbox.get("questions", ())]
        ready = [each["id"] for each in tasks if each["state"] == "ready"]
        declared = [(each["id"], event) for each in tasks for event in each["events"]]
        if declared and self.rng.random() < 0.5:
            about, event = self.rng.choice(declared)
            self._say("events", "tasks", about, {"event": event})
        elif asked:
            self._say("answer", *self.rng.choice(asked), {"answer": "yes"})
        elif ready and self.rng.random() < REJECTED:
            self._say("reject", "tasks", self.rng.choice(ready), {"comment": "no", "run": True})
        elif ready:
            self._say("accept", "tasks", self.rng.choice(ready), {})

    def _say(self, verb: str, noun: str, about: str, body: dict[str, Any]) -> None:
        number = self.history.invoke(verb, id=about)
        answered = self._ask("POST", f"/api/{noun}/{about}/{verb}", body)
        outcome = answered.document.get("outcome") if answered.outcome == OK else answered.code
        self.history.end(number, answered.outcome, answer=str(outcome))
        self.counts[f"{verb} {answered.outcome}"] += 1

    def _ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, key: str = ""
    ) -> Answered:
        url = self.cluster.address(self.rng)
        if url is None:
            time.sleep(0.05)
            return Answered(UNKNOWN, {})
        return ask(url, self.cluster.environment.token, method, path, body, key=key, timeout_s=1.5)


def total(clients: list[Client]) -> Counter[str]:
    """Also while they count."""
    return sum((Counter(dict(each.counts)) for each in clients), Counter())
