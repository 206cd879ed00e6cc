"""A simulation of the PostgreSQL store: a real server, and a seed that decides whose statement is
next.
"""

from verification.interleavings.exploration import FLOOR, Exploration, explore

__all__ = ["FLOOR", "Exploration", "explore"]
