"""Statements that SQLite needs in a form of its own; each file says why."""
