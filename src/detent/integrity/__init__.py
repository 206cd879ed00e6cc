"""Integrity of the data: the hash chain over the log, the audit of rows, verify and rebuild."""
