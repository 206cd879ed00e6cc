"""Rows of the table `intake`: submissions that other programs leave in their own transactions."""

from typing import NamedTuple


class Intake(NamedTuple):
    """Work that another program has left for detent: an operation's name and its input as JSON."""

    id: int
    operation: str
    body: str
    idempotency_key: str | None


class RefusedIntake(NamedTuple):
    """Work that another program has left and detent has refused: when, and the error as JSON."""

    id: int
    operation: str
    body: str
    idempotency_key: str | None
    at: int
    error: str
