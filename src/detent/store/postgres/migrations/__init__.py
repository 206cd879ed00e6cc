"""The schema of a PostgreSQL store, as numbered steps. A released file never changes."""
