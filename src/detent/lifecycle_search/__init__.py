"""An exhaustive search over a lifecycle of tasks: every order of events that its actors can cause.

It runs the decisions of the kernel, so that it finds what a table alone does not show: a report of
a worker that the lifecycle refuses, a task that moves while its job is live, a dead end.
"""

from detent.lifecycle_search.search import MAX_STATES, SearchResult, Violation, search

__all__ = ["MAX_STATES", "SearchResult", "Violation", "search"]
