"""Statements that PostgreSQL needs in a form of its own; each file says why."""
