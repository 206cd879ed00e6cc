"""Metrics and traces, read from the feed."""
