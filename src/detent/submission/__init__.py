"""Submission: one path from a request to a kernel command, used by every entry point.

`request` checks the fields and their types; `options`, `checks` and `payload` check what depends on
the installation; `command` and `subtask` build the command. The kernel checks the rest.
"""
