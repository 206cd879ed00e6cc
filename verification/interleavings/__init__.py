"""A simulation of the PostgreSQL store: a real server, and a seed that decides whose statement is
next.
"""

from verification.interleavings.exploration import explore

__all__ = ["explore"]
