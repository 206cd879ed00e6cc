"""A simulation of the PostgreSQL store: a seed decides whose statement a real server gets next."""

from verification.interleavings.exploration import explore

__all__ = ["explore"]
