"""A trial of a storage layout: one log record per commit, active and ended jobs in separate tables.

It has no kernel and no rules. It writes all six events of a bare job and finds what the layout
itself can do; `docs/decisions/0110-commit-log.md` has the results.
"""
