"""The schema of a SQLite store, as numbered steps. A released file never changes."""
