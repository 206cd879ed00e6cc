"""Moves data: exports and imports of tasks, and from SQLite to PostgreSQL."""
