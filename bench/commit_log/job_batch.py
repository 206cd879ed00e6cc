"""A batch of new jobs of the trial: three intents, some delayed, some under a concurrency key."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from bench.commit_log.events import created, encoding
from bench.commit_log.variants import DELAY_US, DELAYED, INTENTS, KEY, Variant
from bench.jobs import PAYLOAD
from detent.ids import new_id

PAYLOAD_TEXT = msgspec.json.encode(PAYLOAD).decode()
RESULT_TEXT = msgspec.json.encode({"ok": True}).decode()


class NewJob(NamedTuple):
    id: str
    intent: str
    lane: str | None
    rank: int
    due_at: int | None
    key: str | None
    payload: str


def new_jobs(variant: Variant, count: int) -> list[NewJob]:
    now = time.time_ns() // 1_000
    return [_job(variant, now, number) for number in range(count)]


def _job(variant: Variant, now: int, number: int) -> NewJob:
    intent = INTENTS[number % len(INTENTS)]
    lane = variant.lane(intent)
    key = KEY if lane != intent else None
    delayed = number % DELAYED == DELAYED - 1
    due_at = now + DELAY_US if delayed else None
    id = new_id()
    # Payloads differ, or compression would make the log smaller than it is in production.
    payload = PAYLOAD_TEXT.replace("small", id[-12:])
    return NewJob(id, intent, None if delayed else lane, now + number, due_at, key, payload)


def created_body(variant: Variant, jobs: Sequence[NewJob]) -> str:
    """The events of a submission: a part for each intent."""
    parts = []
    for intent in INTENTS:
        values = [
            (job.id, 1, 2, 3, "bench", 0, 0, job.payload) for job in jobs if job.intent == intent
        ]
        key = KEY if variant.lane(intent) != intent else None
        if values:
            parts.append(encoding(variant.entries, created(intent, key)).part(values))
    return "[" + ",".join(parts) + "]"
