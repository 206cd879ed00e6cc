"""Rows in, rows out: one log and the rows that cache it, on SQLite, PostgreSQL or in memory."""
