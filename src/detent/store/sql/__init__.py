"""Statements that both databases understand as they are."""
